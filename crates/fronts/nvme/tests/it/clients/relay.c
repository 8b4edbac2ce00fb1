/*
 * Stands in for the kernel: a file that a program opens has the number of a namespace in it, and its commands go to the test
 * by way of the socket that RELAY names. Compile a program with -Dopen=relay_open -Dioctl=relay_ioctl. Namespaces of another
 * subsystem have 100 added to their numbers.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <stdarg.h>
#include <unistd.h>

#include <linux/nvme_ioctl.h>

/* Numbers of files no other one has. */
#define FIRST_FILE 1000

static int relay = -1;

static void move(int is_read, void *bytes, size_t count)
{
	unsigned char *at = bytes;

	while (count > 0) {
		ssize_t moved = is_read ? read(relay, at, count) : write(relay, at, count);

		if (moved <= 0) {
			perror("the relay");
			exit(3);
		}
		at += moved;
		count -= (size_t)moved;
	}
}

int relay_open(const char *path, int flags, ...)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	FILE *file = fopen(path, "r");
	int number = 0;

	(void)flags;
	if (file == NULL)
		return -1;
	if (fscanf(file, "%d", &number) != 1)
		number = 0;
	fclose(file);
	if (relay < 0) {
		strncpy(address.sun_path, getenv("RELAY"), sizeof(address.sun_path) - 1);
		relay = socket(AF_UNIX, SOCK_STREAM, 0);
		if (connect(relay, (struct sockaddr *)&address, sizeof(address)) != 0)
			return -1;
	}
	return FIRST_FILE + number;
}

/* Linux refuses a command that names another namespace than that of the file. */
int relay_ioctl(int file, unsigned long request, ...)
{
	struct nvme_passthru_cmd64 *command;
	unsigned char answer[12];
	uint32_t status;
	va_list rest;

	if (request == NVME_IOCTL_ID)
		return (file - FIRST_FILE) % 100;
	va_start(rest, request);
	command = va_arg(rest, struct nvme_passthru_cmd64 *);
	va_end(rest);
	if (request != NVME_IOCTL_IO64_CMD || (uint32_t)file != FIRST_FILE + command->nsid) {
		errno = EINVAL;
		return -1;
	}
	move(0, command, sizeof(*command));
	if (command->opcode & 1)
		move(0, (void *)(uintptr_t)command->addr, command->data_len);
	move(1, answer, sizeof(answer));
	memcpy(&status, answer, 4);
	memcpy(&command->result, answer + 4, 8);
	if (status == 0 && command->opcode & 2)
		move(1, (void *)(uintptr_t)command->addr, command->data_len);
	/* Do Not Retry is told besides */
	return status == 0 ? 0 : (int)(status | 0x4000);
}
