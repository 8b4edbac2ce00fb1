/*
 * Counts, in the drive, requests for pages (hits.wasm); then reads a stripe by way of Direct-IO, with permission and without.
 *
 *     cc -I.. -o programs programs.c
 *     ./programs nqn.2014-08.org.nvmexpress:uuid:... ../../../../hosts/spu/modules
 *
 * The name is that of the attached drive's subsystem. Serve the drive with --kernel-host and this host's NQN: rights are the
 * kernel's to give. It writes to the first 8 KiB of the drive.
 */
#include <fcntl.h>
#include <stdio.h>

#include "tantalum_programs.h"

static struct tantalum_endpoint kernel, user;
static unsigned char buffer[TANTALUM_EVENT_BYTES + (64 << 10)];
static unsigned char stripe[16 + 8192];

static void must(int status, const char *what)
{
	if (status == 0)
		return;
	if (status < 0)
		perror(what);
	else
		fprintf(stderr, "%s: status %#05x\n", what, (unsigned)status);
	exit(1);
}

static void check(int is_so, const char *what)
{
	if (!is_so) {
		fprintf(stderr, "not so: %s\n", what);
		exit(1);
	}
}

static uint32_t install(const struct tantalum_endpoint *endpoint, const char *folder, const char *name)
{
	const struct tantalum_installation open_to_all = { .is_open = 1 };
	static unsigned char module[64 << 10];
	char path[4096], why[1024];
	uint32_t program;
	size_t bytes;
	FILE *file;
	int status;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "rb");
	if (file == NULL) {
		perror(path);
		exit(1);
	}
	bytes = fread(module, 1, sizeof(module), file);
	fclose(file);
	status = tantalum_install(endpoint, &open_to_all, module, bytes, &program);
	if (status == TANTALUM_NOT_INSTALLED && tantalum_refusal(endpoint, why, sizeof(why)) == 0)
		fprintf(stderr, "%s\n", why);
	must(status, name);
	return program;
}

static void count_hits(const char *folder)
{
	static const unsigned char page[4] = { 7 };
	uint32_t hits = install(&user, folder, "hits.wasm");
	int32_t answer;

	for (int32_t count = 1; count <= 3; count++) {
		must(tantalum_ask(&user, 3, hits, 0, page, sizeof(page), &answer), "a hit");
		check(answer == count, "a hit is counted");
	}
	printf("page 7 was hit 3 times\n");
	must(tantalum_uninstall(&user, hits), "removing hits.wasm");
	must(tantalum_ask(&user, 3, hits, 0, page, sizeof(page), &answer), "a hit");
	check(answer == TANTALUM_ANSWER_NO_PROGRAM, "it is gone");
}

/* Data of a read have come: after 16 bytes that say of which. */
static void take_data(void *context, const struct tantalum_event *event, const void *body)
{
	check(event->bytes == sizeof(stripe), "the stripe came whole");
	check(memcmp(body, stripe, 8) == 0, "it is the one that was asked for");
	*(int *)context = memcmp((const unsigned char *)body + 16, stripe + 16, 8192) == 0;
}

static void read_and_write(const char *folder)
{
	const struct tantalum_handler handlers[] = { { 0, take_data } };
	uint32_t direct = install(&kernel, folder, "direct_io.wasm");
	struct tantalum_event event;
	int32_t answer;
	int is_equal = 0;

	for (size_t index = 16; index < sizeof(stripe); index++)
		stripe[index] = (unsigned char)(index * 7 + index / 256);
	tantalum_put_le(stripe + 8, 8192, 4);
	must(tantalum_ask(&user, 0, direct, 1, stripe, sizeof(stripe), &answer), "a write");
	check(answer == TANTALUM_ANSWER_NO_PERMISSION, "a write without a right fails");
	must(tantalum_receive(&user, &event, buffer, sizeof(buffer), 1000), "a decision");
	check(event.kind == TANTALUM_PERMISSION && !event.is_granted, "the driver has none");
	must(tantalum_grant(&kernel, user.process, 0, 8192, TANTALUM_READ | TANTALUM_WRITE), "a grant");
	must(tantalum_ask(&user, 0, direct, 1, stripe, sizeof(stripe), &answer), "a write");
	check(answer == TANTALUM_ANSWER_OK, "a write with the right");
	must(tantalum_ask(&user, 0, direct, 0, stripe, 16, &answer), "a read");
	check(answer == TANTALUM_ANSWER_OK, "a read with the right");
	must(tantalum_serve(&user, handlers, 1, &is_equal, &event, buffer, sizeof(buffer), 1000), "the data");
	check(is_equal, "what is read is what was written");
	printf("a stripe was written and read by Direct-IO\n");
}

int main(int count, char **arguments)
{
	char path[TANTALUM_PATH_BYTES];
	int file;

	if (count != 3) {
		fprintf(stderr, "usage: programs NQN FOLDER-WITH-MODULES\n");
		return 2;
	}
	must(tantalum_find(arguments[1], 1, path), arguments[1]);
	file = open(path, O_RDWR);
	must(file < 0 ? -1 : 0, arguments[1]);
	must(tantalum_open_endpoint(file, 1, &kernel), "an endpoint of the kernel");
	must(tantalum_open_endpoint(file, 0, &user), "an endpoint");
	count_hits(arguments[2]);
	read_and_write(arguments[2]);
	must(tantalum_close_endpoint(&user), "closing an endpoint");
	must(tantalum_close_endpoint(&kernel), "closing an endpoint");
	printf("all of it is right\n");
	return 0;
}
