/* Prints each command as it goes to the drive: its name, its 64 bytes without the data pointer, and its data. */
#include <stdio.h>
#include <stdlib.h>

#include "tantalum_nvme.h"

static unsigned char buffer[64 << 10];
static unsigned char unit[TANTALUM_UNIT_BYTES];
static const char value[] = "a value";

static void hex(const unsigned char *bytes, size_t count)
{
	for (size_t index = 0; index < count; index++)
		printf("%02x", bytes[index]);
}

static void print(const char *name, const struct nvme_passthru_cmd64 *command)
{
	unsigned char entry[64] = { 0 };
	const uint32_t dwords[] = { command->cdw10, command->cdw11, command->cdw12,
				    command->cdw13, command->cdw14, command->cdw15 };

	/* as Linux does it */
	entry[0] = command->opcode;
	entry[1] = command->flags;
	tantalum_put_le(entry + 4, command->nsid, 4);
	tantalum_put_le(entry + 8, command->cdw2, 4);
	tantalum_put_le(entry + 12, command->cdw3, 4);
	tantalum_put_le(entry + 16, command->metadata, 8);
	for (size_t index = 0; index < 6; index++)
		tantalum_put_le(entry + 40 + 4 * index, dwords[index], 4);
	printf("%s ", name);
	hex(entry, sizeof(entry));
	printf(" %u ", command->data_len);
	/* data to the drive are shown */
	if (command->opcode & 1)
		hex((const unsigned char *)(uintptr_t)command->addr, command->data_len);
	printf("\n");
}

static void must(int result)
{
	if (result != 0) {
		fprintf(stderr, "a call that must succeed failed\n");
		exit(1);
	}
}

static struct tantalum_data empty(void)
{
	memset(buffer, 0xee, sizeof(buffer));
	return tantalum_data_in(buffer, sizeof(buffer));
}

static void print_blocks(void)
{
	struct nvme_passthru_cmd64 command;
	struct tantalum_data data = empty();

	tantalum_fill_flush(&command, 1);
	print("flush", &command);
	tantalum_fill_write(&command, 1, 1ull << 33 | 5, 1, unit, sizeof(unit), 1);
	print("write", &command);
	tantalum_fill_read(&command, 1, 7, 2, buffer, 8192);
	print("read", &command);
	must(tantalum_add_blocks(&data, 3000, 2));
	must(tantalum_add_blocks(&data, 1ull << 33, 1));
	tantalum_fill_deallocate(&command, 1, &data);
	print("deallocate", &command);
}

static void print_mappings(void)
{
	struct nvme_passthru_cmd64 command;
	struct tantalum_data data = empty();

	tantalum_fill_remap(&command, 1, 100, 200, 4);
	print("remap", &command);
	must(tantalum_add_range(&data, 100, 0, 2));
	must(tantalum_add_range(&data, 200, 4, 1));
	tantalum_fill_share(&command, 1, &data, 0);
	print("share", &command);
	tantalum_fill_share(&command, 1, &data, 1);
	print("share-deferred", &command);
}

static void print_batches(void)
{
	struct nvme_passthru_cmd64 command;
	struct tantalum_data data = empty();

	must(tantalum_add_unit(&data, 5, unit));
	must(tantalum_add_unit(&data, 900, unit));
	tantalum_fill_write_atomic(&command, 1, &data);
	print("write-atomic", &command);
	must(tantalum_add_record(&data, 2, "key", 3, value, sizeof(value) - 1));
	must(tantalum_add_record(&data, 3, "a key of 16 byte", 16, NULL, 0));
	tantalum_fill_write_batch(&command, 1, &data);
	print("write-batch", &command);
	data = empty();
	must(tantalum_add_record(&data, 2, "key", 3, value, sizeof(value) - 1));
	must(tantalum_add_record(&data, 3, "gone", 4, NULL, 0));
	must(tantalum_add_record(&data, 3, "empty", 5, "", 0));
	tantalum_fill_put(&command, 2, &data);
	print("put", &command);
}

static void print_transactions(void)
{
	const uint64_t transaction = 0x123456789abcdefull;
	struct nvme_passthru_cmd64 command;

	tantalum_fill_begin(&command, 1);
	print("begin", &command);
	tantalum_fill_tx_write(&command, 1, transaction, 7, unit);
	print("tx-write", &command);
	tantalum_fill_tx_read(&command, 1, transaction, 7, buffer);
	print("tx-read", &command);
	tantalum_fill_commit(&command, 1, transaction);
	print("commit", &command);
	tantalum_fill_abort(&command, 1, transaction);
	print("abort", &command);
}

static void print_logs(void)
{
	struct tantalum_hint hint = {
		.generation = 1ull << 40, .attempt = 2, .start = 3, .first = 4, .slot = 5, .end = 1, .home = 6,
	};
	struct nvme_passthru_cmd64 command;
	struct tantalum_data data = empty();

	tantalum_fill_begin_log(&command, 1);
	print("begin-log", &command);
	memset(hint.metadata, 9, sizeof(hint.metadata));
	must(tantalum_add_page(&data, &hint, unit));
	tantalum_fill_write_hinted(&command, 1, 3000, &data);
	print("write-hinted", &command);
	data = empty();
	hint.end = 0;
	hint.home = TANTALUM_NO_HOME;
	must(tantalum_add_page(&data, &hint, unit));
	tantalum_fill_write_hinted(&command, 1, 3001, &data);
	print("write-hinted-homeless", &command);
}

static void print_records(void)
{
	struct nvme_passthru_cmd64 command;

	must(tantalum_fill_store(&command, 2, "key", 3, value, sizeof(value) - 1, TANTALUM_STORE_ALWAYS));
	print("store", &command);
	must(tantalum_fill_store(&command, 3, "a key of 16 byte", 16, value, sizeof(value) - 1, TANTALUM_STORE_IF_NEW));
	print("store-new", &command);
	must(tantalum_fill_retrieve(&command, 2, "nine byte", 9, buffer, 4096));
	print("retrieve", &command);
	must(tantalum_fill_list(&command, 2, NULL, 0, buffer, 4096));
	print("list", &command);
	must(tantalum_fill_list(&command, 2, "key", 3, buffer, 512));
	print("list-from", &command);
	must(tantalum_fill_delete(&command, 2, "key", 3));
	print("delete", &command);
	must(tantalum_fill_exist(&command, 2, "key", 3));
	print("exist", &command);
}

/* What has no room, and keys that are too long, are refused. */
static void check_refusals(void)
{
	unsigned char little[64];
	struct tantalum_data data = tantalum_data_in(little, sizeof(little));
	struct nvme_passthru_cmd64 command;

	must(tantalum_add_unit(&data, 1, unit) != -1 || errno != ENOSPC);
	must(data.used != 0);
	must(tantalum_add_record(&data, 2, "key", 3, value, 33) != -1 || errno != ENOSPC);
	must(tantalum_add_record(&data, 2, "a key of 17 bytes", 17, NULL, 0) != -1 || errno != EINVAL);
	must(tantalum_fill_delete(&command, 2, "a key of 17 bytes", 17) != -1 || errno != EINVAL);
}

int main(void)
{
	for (size_t index = 0; index < sizeof(unit); index++)
		unit[index] = (unsigned char)(index * 7 + index / 256);
	print_blocks();
	print_mappings();
	print_batches();
	print_transactions();
	print_logs();
	print_records();
	check_refusals();
	return 0;
}
