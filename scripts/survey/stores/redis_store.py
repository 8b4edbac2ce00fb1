"""Redis with an append-only file. Options: `appendfsync`; `fix` runs `redis-check-aof --fix` before the server starts."""
import io
import os
import shutil
import socket
import subprocess
import tempfile
import time


def may_lose(options):
    return 'everysec' in options


def open(folder, options):
    return Store(folder, options)


def fix(folder):
    manifest = f'{folder}/appendonlydir/appendonly.aof.manifest'
    if os.path.exists(manifest):
        subprocess.run(['redis-check-aof', '--fix', manifest], input=b'y\n' * 4, stdout=subprocess.DEVNULL)


class Store:
    def __init__(self, folder, options):
        if 'fix' in options:
            fix(folder)
        self.place = tempfile.mkdtemp(prefix='redis-')
        path = f'{self.place}/socket'
        words = ['--port', '0', '--unixsocket', path, '--dir', folder, '--appendonly', 'yes', '--save', '']
        words += ['--appendfsync', 'everysec' if 'everysec' in options else 'always', '--logfile', f'{self.place}/log']
        self.server = subprocess.Popen(['redis-server', *words])
        self.socket = socket.socket(socket.AF_UNIX)
        self.commands = []
        self.connect(path)
        self.answers = self.socket.makefile('rb')
        while b'LOADING' in self.ask('ping'):
            time.sleep(0.01)

    def connect(self, path):
        while True:
            try:
                return self.socket.connect(path)
            except OSError:
                if self.server.poll() is not None:
                    with io.open(f'{self.place}/log') as log:
                        raise ValueError(log.read()[-300:]) from None
                time.sleep(0.005)

    def ask(self, *words):
        line = b''.join(b'$%d\r\n%s\r\n' % (len(word.encode()), word.encode()) for word in words)
        self.socket.sendall(b'*%d\r\n' % len(words) + line)
        return self.answer()

    def answer(self):
        line = self.answers.readline().rstrip()
        if line[:1] == b'$':
            size = int(line[1:])
            return self.answers.read(size + 2)[:-2] if size >= 0 else None
        if line[:1] == b'*':
            return [self.answer() for _ in range(int(line[1:]))]
        return line

    def put(self, key, text):
        self.commands.append(('set', key, text))

    def delete(self, key):
        self.commands.append(('del', key))

    def commit(self):
        self.ask('multi')
        for command in self.commands:
            self.ask(*command)
        self.commands = []
        if not isinstance(self.ask('exec'), list):
            raise ValueError('exec was refused')

    def pairs(self):
        return {key.decode(): self.ask('get', key.decode()).decode() for key in self.ask('keys', '*')}

    def compact(self):
        self.ask('bgrewriteaof')
        while b'aof_rewrite_in_progress:1' in self.ask('info', 'persistence'):
            time.sleep(0.005)

    def close(self):
        self.socket.sendall(b'*2\r\n$8\r\nshutdown\r\n$6\r\nnosave\r\n')
        self.server.wait()
        self.socket.close()
        shutil.rmtree(self.place)
