"""git: four commits, and a repack after two. What is left must be a repository without faults, at a commit that is not older than the last acknowledged.

    git.py create FOLDER [CONFIG=VALUE...]
    git.py work   FOLDER
    git.py check  FOLDER
"""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import ledger

COMMITS = 4
REPACK_AFTER = 2


def git(folder, *words):
    names = {f'GIT_{who}_{what}': 'survey' for who in ('AUTHOR', 'COMMITTER') for what in ('NAME', 'EMAIL')}
    environment = {**os.environ, **names, 'GIT_CONFIG_GLOBAL': '/dev/null', 'GIT_CONFIG_SYSTEM': '/dev/null'}
    ran = subprocess.run(['git', '-C', folder, *words], env=environment, capture_output=True, text=True)
    if ran.returncode != 0:
        raise ValueError(f'git {words[0]}: {ran.stderr.strip()[-300:] or ran.stdout.strip()[-300:]}')
    return ran.stdout.strip()


def commit(folder, number):
    with open(f'{folder}/notes', 'w') as file:
        file.write(f'commit {number}\n' * 100)
    git(folder, 'add', 'notes')
    git(folder, 'commit', '-q', '-m', f'commit {number}')


def create(folder, *settings):
    git(folder, 'init', '-q', '-b', 'main', '--template=')
    git(folder, 'config', 'gc.auto', '0')
    for setting in settings:
        git(folder, 'config', *setting.split('=', 1))
    commit(folder, 0)


def work(folder):
    for number in range(1, COMMITS + 1):
        commit(folder, number)
        ledger.acknowledge(number)
        if number == REPACK_AFTER:
            git(folder, 'repack', '-a', '-d', '-q')
            git(folder, 'pack-refs', '--all')


def check(folder):
    said = ledger.acknowledged()
    try:
        git(folder, 'fsck', '--strict')
        number = int(git(folder, 'log', '-1', '--format=%s').split()[1])
        notes = git(folder, 'show', 'HEAD:notes')
        git(folder, 'status', '--short')
    except ValueError as error:
        sys.exit(f'after commit {said} was acknowledged: {error}')
    if number < said or notes != '\n'.join([f'commit {number}'] * 100):
        sys.exit(f'lost: commit {said} was acknowledged, and the branch is at commit {number}')


def main():
    what, folder, *settings = sys.argv[1:]
    {'create': create, 'work': work, 'check': check}[what](folder, *settings)


if __name__ == '__main__':
    main()
