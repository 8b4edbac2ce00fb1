"""Runs the ledger of `ledger.py` on stores that are used from Python.

    pystore.py create MODULE[:OPTION,...] FOLDER    makes an empty store
    pystore.py work   MODULE[:OPTION,...] FOLDER
    pystore.py check  MODULE[:OPTION,...] FOLDER

A module is a file in `stores/`. It has `open(folder, options)`, which returns a store with `put`, `delete`, `commit`, `pairs`,
`close` and perhaps `compact`; `SINGLE` if it has no transactions; and `may_lose(options)` if an option gives up durability.
"""
import importlib
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), 'stores'))
import ledger


def apply(store, changes):
    for what, key, text in changes:
        if what == 'put':
            store.put(key, text)
        else:
            store.delete(key)
    store.commit()


def create(module, options, folder):
    module.open(folder, options).close()


def work(module, options, folder):
    single = getattr(module, 'SINGLE', False)
    store = module.open(folder, options)
    for step in range(1, ledger.STEPS + 1):
        apply(store, ledger.changes(step, single))
        ledger.acknowledge(step)
        if step == ledger.COMPACT_AFTER and hasattr(store, 'compact'):
            store.compact()
        if step in ledger.REOPEN_AFTER:
            store.close()
            store = module.open(folder, options)
    store.close()


def check(module, options, folder):
    try:
        pairs = read_twice(module, options, folder)
    except Exception as error:
        ledger.unreadable(f'{type(error).__name__}: {error}')
    may_lose = getattr(module, 'may_lose', lambda options: False)(options)
    ledger.verify(pairs, getattr(module, 'SINGLE', False), may_lose)


def read_twice(module, options, folder):
    """What is there, also after another commit: a store that recovers must be usable."""
    store = module.open(folder, options)
    pairs = store.pairs()
    apply(store, [('put', 'after', 'the cut')])
    store.close()
    store = module.open(folder, options)
    later = store.pairs()
    store.close()
    if later != {**pairs, 'after': 'the cut'}:
        raise ValueError('a commit after the power cut changed more than it wrote')
    return pairs


def prepare(words):
    importlib.import_module(words[1].partition(':')[0])


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    what, module, folder = sys.argv[1:]
    name, _, options = module.partition(':')
    run = {'create': create, 'work': work, 'check': check}[what]
    run(importlib.import_module(name), options.split(',') if options else [], folder)


if __name__ == '__main__':
    main()
