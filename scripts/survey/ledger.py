"""The workload of all key-value stores of the survey, and what must be left of it.

A step is one commit: it overwrites two keys that must agree, adds a key, and removes an old one. So after N steps a store's
contents are one known set of pairs, `state(N)`. An adapter applies the steps and acknowledges each commit; after a power cut
the contents must be exactly `state(N)`, for an N that is not older than the last acknowledged step.

    ledger.py script [--single]      prints the steps, for adapters that read them
    ledger.py check  [--single] [--may-lose] COMMAND...   runs COMMAND, which prints `key<TAB>value` lines, and compares

`--single`: a step is one put, for stores without transactions. `--may-lose`: acknowledged steps may be lost, but not torn.
"""
import os
import subprocess
import sys
import time

STEPS = 6
REOPEN_AFTER = (2, 5)
COMPACT_AFTER = 4
KEPT = 2


def value(step):
    """Some kilobytes: several sectors, more than a page once."""
    text = f'{step:07d}-'
    return text * (800 if step == 3 else 150)


def changes(step, single):
    if single:
        return [('put', f'key{step}', value(step))]
    removed = [('delete', f'key{step - KEPT}', '')] if step > KEPT else []
    pairs = [('put', 'left', value(step)), ('put', f'key{step}', value(step)), ('put', 'right', value(step))]
    return pairs + removed


def state(steps, single):
    pairs = {}
    for step in range(1, steps + 1):
        for what, key, text in changes(step, single):
            if what == 'put':
                pairs[key] = text
            else:
                del pairs[key]
    return pairs


def acknowledge(step):
    """Says that a step is durable, and waits until that is heard: what is heard late tests fewer cuts."""
    with open(os.environ['TANTALUM_ACK'], 'w') as file:
        file.write(f'{step}\n')
    time.sleep(0.02)


def acknowledged():
    with open(os.environ['TANTALUM_ACKS']) as file:
        lines = file.read().split()
    return int(lines[-1]) if lines else 0


def verify(pairs, single=False, may_lose=False):
    """Exits with a message unless the pairs are those after some step, and that is not before an acknowledged one."""
    said = acknowledged()
    for steps in range(STEPS, -1, -1):
        if pairs == state(steps, single):
            break
    else:
        sys.exit(f'torn: after step {said} was acknowledged, {describe(pairs)}')
    if steps < said and not may_lose:
        sys.exit(f'lost: step {said} was acknowledged, and step {steps} is the last that is there')


def describe(pairs):
    def short(key, text):
        step = text[:7]
        whole = step.isdigit() and text == value(int(step))
        return f'{key}={step}' if whole else f'{key}=<{len(text)} bytes that were never written>'
    return 'there is ' + (', '.join(short(key, text) for key, text in sorted(pairs.items())) or 'nothing')


def unreadable(error):
    """A store that cannot be opened has lost what was acknowledged; before that it has promised nothing."""
    said = acknowledged()
    if said:
        sys.exit(f'unreadable: after step {said} was acknowledged: {error}')
    sys.exit(0)


def script(single):
    for step in range(1, STEPS + 1):
        for what, key, text in changes(step, single):
            print(what, key, text)
        print('commit', step, '-')
        if step == COMPACT_AFTER:
            print('compact - -')
        if step in REOPEN_AFTER:
            print('reopen - -')


def check(command, single, may_lose):
    ran = subprocess.run(command, capture_output=True, text=True, errors='replace')
    if ran.returncode != 0:
        unreadable((ran.stderr.strip() or ran.stdout.strip() or f'exit code {ran.returncode}')[-600:])
    lines = [line.split('\t', 1) for line in ran.stdout.splitlines() if '\t' in line]
    verify({key: text for key, text in lines}, single, may_lose)


def main():
    words = sys.argv[1:]
    single, may_lose = '--single' in words, '--may-lose' in words
    words = [word for word in words if word not in ('--single', '--may-lose')]
    if words[:1] == ['script']:
        script(single)
    elif words[:1] == ['check'] and len(words) > 1:
        check(words[1:], single, may_lose)
    else:
        sys.exit(__doc__)


if __name__ == '__main__':
    main()
