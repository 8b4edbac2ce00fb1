/*
 * Asks the server of serve.py to run a check, so that Python need not be started for each.
 *
 *     ask PROGRAM SCRIPT WORD...
 *
 * The server listens on $SURVEY_SERVER. It is sent the working directory, the file of acknowledgements, and the words, each with a
 * zero at its end. It answers with what the check prints, and in one last byte with its exit code. Without a server, the program
 * is executed as it is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void tell(int server, const char *text)
{
    size_t left = strlen(text) + 1;
    while (left > 0) {
        ssize_t sent = send(server, text, left, MSG_NOSIGNAL);
        if (sent < 0) {
            perror("ask: send");
            exit(98);
        }
        text += sent;
        left -= sent;
    }
}

static int connected(void)
{
    const char *path = getenv("SURVEY_SERVER");
    struct sockaddr_un address = { .sun_family = AF_UNIX };
    if (path == NULL || strlen(path) >= sizeof address.sun_path)
        return -1;
    strcpy(address.sun_path, path);
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (server >= 0 && connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
        close(server);
        return -1;
    }
    return server;
}

int main(int count, char **words)
{
    if (count < 3) {
        fprintf(stderr, "usage: ask PROGRAM SCRIPT WORD...\n");
        return 98;
    }
    int server = connected();
    if (server < 0) {
        execvp(words[1], words + 1);
        perror(words[1]);
        return 98;
    }
    char folder[4096];
    if (getcwd(folder, sizeof folder) == NULL) {
        perror("ask: getcwd");
        return 98;
    }
    const char *acks = getenv("TANTALUM_ACKS");
    tell(server, folder);
    tell(server, acks == NULL ? "" : acks);
    for (int word = 2; word < count; word++)
        tell(server, words[word]);
    shutdown(server, SHUT_WR);

    /* all but the last byte is output */
    int last = -1;
    char answer[4096];
    ssize_t got;
    while ((got = read(server, answer, sizeof answer)) > 0) {
        if (last >= 0)
            putchar(last);
        fwrite(answer, 1, got - 1, stdout);
        last = (unsigned char)answer[got - 1];
    }
    fflush(stdout);
    if (last < 0 || got < 0) {
        fprintf(stderr, "ask: the server gave no answer\n");
        return 98;
    }
    return last;
}
