/*
 * Stores and retrieves a record, shares units, and writes units and records in one atomic batch; checks all of it.
 *
 *     cc -std=c11 -static -I.. batch.c -o batch
 *     ./batch nqn.2014-08.org.nvmexpress:uuid:...
 *
 * The name is that of the attached drive's subsystem, which needs a key-value namespace (`tantalum serve --key-value 1`).
 * It overwrites units 0 to 9 and the keys that begin with "example".
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "tantalum_nvme.h"

#define BLOCKS 1u
#define RECORDS 2u

static unsigned char buffer[64 << 10];
static unsigned char unit[TANTALUM_UNIT_BYTES];

/* Sends a command that must end with this status. */
static uint64_t send_for(int file, struct nvme_passthru_cmd64 *command, const char *what, int expected)
{
	int status = tantalum_send(file, command);

	if (status == -1) {
		perror(what);
		exit(1);
	}
	if (status != expected) {
		fprintf(stderr, "%s: status %#05x, expected %#05x\n", what, (unsigned)status, (unsigned)expected);
		exit(1);
	}
	return command->result;
}

static void check(int is_right, const char *what)
{
	if (!is_right) {
		fprintf(stderr, "%s is not what was written\n", what);
		exit(1);
	}
	printf("%s: ok\n", what);
}

static const unsigned char *filled(unsigned char byte)
{
	memset(unit, byte, sizeof(unit));
	return unit;
}

/* Whether the unit reads as this byte. `block_bytes` are those of a logical block. */
static int holds(int file, uint32_t lpn, unsigned char byte, uint32_t block_bytes)
{
	struct nvme_passthru_cmd64 command;
	uint32_t blocks = TANTALUM_UNIT_BYTES / block_bytes;

	tantalum_fill_read(&command, BLOCKS, (uint64_t)lpn * blocks, blocks, buffer, TANTALUM_UNIT_BYTES);
	send_for(file, &command, "read", 0);
	return memcmp(buffer, filled(byte), TANTALUM_UNIT_BYTES) == 0;
}

static int value_is(int file, const char *key, const char *value)
{
	struct nvme_passthru_cmd64 command;
	size_t bytes = strlen(value);

	memset(buffer, 0, 64);
	tantalum_fill_retrieve(&command, RECORDS, key, strlen(key), buffer, 64);
	return send_for(file, &command, "retrieve", 0) == bytes && memcmp(buffer, value, bytes) == 0;
}

static void store_and_retrieve(int records)
{
	struct nvme_passthru_cmd64 command;

	tantalum_fill_store(&command, RECORDS, "example", 7, "a stored value", 14, TANTALUM_STORE_ALWAYS);
	send_for(records, &command, "store", 0);
	check(value_is(records, "example", "a stored value"), "the stored record");
	tantalum_fill_store(&command, RECORDS, "example", 7, "another", 7, TANTALUM_STORE_IF_NEW);
	send_for(records, &command, "store of a key that is there", TANTALUM_KEY_EXISTS);
}

static void write_and_share(int blocks, uint32_t block_bytes)
{
	struct nvme_passthru_cmd64 command;
	struct tantalum_data data = tantalum_data_in(buffer, sizeof(buffer));
	uint32_t count = TANTALUM_UNIT_BYTES / block_bytes;

	tantalum_fill_write(&command, BLOCKS, 0, count, filled(11), TANTALUM_UNIT_BYTES, 1);
	send_for(blocks, &command, "write", 0);
	tantalum_add_range(&data, 4, 0, 1);
	tantalum_fill_share(&command, BLOCKS, &data, 0);
	send_for(blocks, &command, "share", 0);
	check(holds(blocks, 4, 11, block_bytes), "the shared unit");
}

static void write_batch(int blocks, int records, uint32_t block_bytes)
{
	struct nvme_passthru_cmd64 command;
	struct tantalum_data data = tantalum_data_in(buffer, sizeof(buffer));

	tantalum_add_unit(&data, 2, filled(22));
	tantalum_add_unit(&data, 9, filled(99));
	tantalum_add_record(&data, RECORDS, "example", 7, NULL, 0);
	tantalum_add_record(&data, RECORDS, "example of a bat", 16, "with units", 10);
	tantalum_fill_write_batch(&command, BLOCKS, &data);
	send_for(blocks, &command, "batch", 0);
	check(holds(blocks, 2, 22, block_bytes) && holds(blocks, 9, 99, block_bytes), "the units of the batch");
	check(value_is(records, "example of a bat", "with units"), "the record of the batch");
	tantalum_fill_exist(&command, RECORDS, "example", 7);
	send_for(records, &command, "the record that the batch deleted", TANTALUM_NO_SUCH_KEY);
	/* a key twice: nothing of it is done */
	data = tantalum_data_in(buffer, sizeof(buffer));
	tantalum_add_unit(&data, 2, filled(33));
	tantalum_add_record(&data, RECORDS, "example", 7, "1", 1);
	tantalum_add_record(&data, RECORDS, "example", 7, "2", 1);
	tantalum_fill_write_batch(&command, BLOCKS, &data);
	send_for(blocks, &command, "batch with a key twice", TANTALUM_INVALID_FIELD);
	check(holds(blocks, 2, 22, block_bytes), "the unit of the refused batch");
}

static void commit(int blocks, uint32_t block_bytes)
{
	struct nvme_passthru_cmd64 command;
	uint64_t transaction;

	tantalum_fill_begin(&command, BLOCKS);
	transaction = send_for(blocks, &command, "begin", 0);
	tantalum_fill_tx_write(&command, BLOCKS, transaction, 2, filled(44));
	send_for(blocks, &command, "write in a transaction", 0);
	check(holds(blocks, 2, 22, block_bytes), "the unit before the commit");
	tantalum_fill_commit(&command, BLOCKS, transaction);
	send_for(blocks, &command, "commit", 0);
	check(holds(blocks, 2, 44, block_bytes), "the unit after the commit");
}

static int opened(const char *subsystem, uint32_t namespace_id)
{
	char path[TANTALUM_PATH_BYTES];
	int file = tantalum_find(subsystem, namespace_id, path) == 0 ? open(path, O_RDWR) : -1;

	if (file < 0) {
		fprintf(stderr, "namespace %u of %s: %s\n", namespace_id, subsystem, strerror(errno));
		exit(1);
	}
	return file;
}

int main(int arguments, char **argument)
{
	uint32_t block_bytes = 4096;
	int blocks, records;

	if (arguments != 2 && arguments != 3) {
		fprintf(stderr, "usage: %s NQN [bytes of a logical block: 4096 or 512]\n", argument[0]);
		return 2;
	}
	if (arguments == 3)
		block_bytes = strcmp(argument[2], "512") == 0 ? 512 : 4096;
	blocks = opened(argument[1], BLOCKS);
	records = opened(argument[1], RECORDS);
	store_and_retrieve(records);
	write_and_share(blocks, block_bytes);
	write_batch(blocks, records, block_bytes);
	commit(blocks, block_bytes);
	close(records);
	close(blocks);
	printf("all of it is right\n");
	return 0;
}
