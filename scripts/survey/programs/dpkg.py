"""dpkg: a package is installed, then upgraded twice. What dpkg says is installed must be there whole.

    dpkg.py create FOLDER
    dpkg.py work   FOLDER
    dpkg.py check  FOLDER
"""
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import ledger

VERSIONS = 3
FILES = ['opt/survey/program', 'opt/survey/data']


def text(name, version):
    return f'{name} of version {version}\n' * 100


def dpkg(folder, *words):
    # images of containers often set force-unsafe-io in /etc/dpkg/dpkg.cfg.d
    options = ['--refuse-unsafe-io', f'--root={folder}', '--force-script-chrootless', '--force-depends', '--log=/dev/null']
    return subprocess.run(['dpkg', *options, *words], capture_output=True, text=True, errors='replace')


def build(place, version):
    root = f'{place}/{version}'
    for name in FILES:
        os.makedirs(os.path.dirname(f'{root}/{name}'), exist_ok=True)
        with open(f'{root}/{name}', 'w') as file:
            file.write(text(name, version))
    os.makedirs(f'{root}/DEBIAN')
    with open(f'{root}/DEBIAN/control', 'w') as file:
        file.write(f'Package: survey\nVersion: {version}\nArchitecture: all\nMaintainer: nobody\nDescription: survey\n')
    subprocess.run(['dpkg-deb', '-b', '-Znone', root, f'{root}.deb'], check=True, capture_output=True)
    return f'{root}.deb'


def create(folder):
    for name in ('info', 'updates', 'triggers', 'parts'):
        os.makedirs(f'{folder}/var/lib/dpkg/{name}')
    for name in ('status', 'available'):
        open(f'{folder}/var/lib/dpkg/{name}', 'w').close()
    os.makedirs(f'{folder}/opt')


def work(folder):
    with tempfile.TemporaryDirectory() as place:
        for version in range(1, VERSIONS + 1):
            ran = dpkg(folder, '-i', build(place, version))
            if ran.returncode != 0:
                sys.exit(ran.stderr)
            ledger.acknowledge(version)


def read(path):
    try:
        with open(path, errors='replace') as file:
            return file.read()
    except FileNotFoundError:
        return None


def check(folder):
    said = ledger.acknowledged()
    asked = ['dpkg-query', f'--root={folder}', '-W', '-f', '${db:Status-Abbrev} ${Version}', 'survey']
    status = subprocess.run(asked, capture_output=True, text=True, errors='replace')
    words = status.stdout.split()
    if said and status.returncode != 0:
        sys.exit(f'after version {said} was acknowledged: {status.stderr.strip()[-300:]}')
    if words[:1] == ['ii'] and int(words[1]) < said:
        sys.exit(f'lost: version {said} was acknowledged, and {words[1]} is installed')
    for name in FILES:
        found = read(f'{folder}/{name}')
        whole = [version for version in range(1, VERSIONS + 1) if found == text(name, version)]
        if found is not None and not whole:
            sys.exit(f'{name} is torn: {len(found)} bytes')
        if words[:1] == ['ii'] and whole != [int(words[1])]:
            sys.exit(f'version {words[1]} is installed, and {name} is of version {whole}')


def main():
    what, folder = sys.argv[1:]
    {'create': create, 'work': work, 'check': check}[what](os.path.abspath(folder))


if __name__ == '__main__':
    main()
