"""Runs checks for ask.c. Each is a fork of this process, which has imported what it needs.

    serve.py SOCKET SCRIPT WORD...

The words are those of one check; a script that has `prepare` may import by them what the checks import.
"""
import importlib.util
import os
import signal
import socket
import sys
import traceback

# a check whose client gave up ends by itself
MOST_SECONDS = 120


def main():
    place, script, *words = sys.argv[1:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    spec = importlib.util.spec_from_file_location('checked', script)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    getattr(module, 'prepare', lambda words: None)(words)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen(64)
        print('ready', flush=True)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        while True:
            client, _ = server.accept()
            if os.fork() == 0:
                server.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                answer(client, module, script)
            client.close()


def answer(client, module, script):
    """Forks the check, waits for it, and sends its exit code. Does not return."""
    with client.makefile('rb') as request:
        folder, acks, *words = (word.decode() for word in request.read().split(b'\0')[:-1])
    worker = os.fork()
    if worker == 0:
        os.setpgid(0, 0)
        signal.alarm(MOST_SECONDS)
        os.chdir(folder)
        os.environ['TANTALUM_DIR'], os.environ['TANTALUM_ACKS'] = folder, acks
        # what the check asks in turn is another server, if there is one
        os.environ['SURVEY_SERVER'] = os.environ.get('SURVEY_STORE_SERVER', '')
        for output in (1, 2):
            os.dup2(client.fileno(), output)
        client.close()
        sys.argv = [script, *words[1:]]
        code = status_of(module.main)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    _, status = os.waitpid(worker, 0)
    try:
        os.killpg(worker, signal.SIGKILL)
    except ProcessLookupError:
        pass
    code = os.waitstatus_to_exitcode(status)
    if code < 0:
        client.sendall(f'killed by signal {-code}\n'.encode())
    client.sendall(bytes([code if code >= 0 else 128 - code]))
    os._exit(0)


def status_of(check):
    try:
        check()
    except SystemExit as ended:
        if isinstance(ended.code, str):
            print(ended.code, file=sys.stderr)
            return 1
        return ended.code or 0
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


if __name__ == '__main__':
    main()
