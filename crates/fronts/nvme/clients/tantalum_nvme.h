/*
 * Tantalum's vendor commands, and NVMe's Key Value commands, for programs on a Linux host.
 *
 * Header only; it needs nothing but Linux's own headers. A function tantalum_fill_*() fills in a command and sends
 * nothing; tantalum_send() gives the command to the drive by way of the file of a namespace (1 has the blocks, 2 and up are
 * key-value namespaces), which tantalum_find() finds, and waits for it. docs/nvme.md tells what each command does.
 *
 *     char path[TANTALUM_PATH_BYTES];
 *     struct nvme_passthru_cmd64 command;
 *     if (tantalum_find("nqn.2014-08.org.nvmexpress:uuid:...", 1, path) != 0)
 *         return -1;
 *     int file = open(path, O_RDWR);
 *     tantalum_fill_remap(&command, 1, 100, 200, 4);
 *     int status = tantalum_send(file, &command);
 *
 * Units have 4096 bytes and are named by number, also where logical blocks have 512 bytes. Commands with several ranges,
 * units or records take them from a buffer of the caller's, which the functions tantalum_add_*() fill.
 */
#ifndef TANTALUM_NVME_H
#define TANTALUM_NVME_H

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <linux/nvme_ioctl.h>

/* Bytes of a unit. */
#define TANTALUM_UNIT_BYTES 4096u
/* Bytes of the longest key. */
#define TANTALUM_KEY_BYTES 16u
/* The largest transfer of a command. */
#define TANTALUM_TRANSFER_BYTES (512u << 10)
/* The home of a log's page that has none. */
#define TANTALUM_NO_HOME UINT32_MAX

/* Where Linux lists the generic devices of namespaces, and where their files are. */
#ifndef TANTALUM_GENERIC
#define TANTALUM_GENERIC "/sys/class/nvme-generic"
#define TANTALUM_DEV "/dev"
#endif
/* Room for the path of such a file. */
#define TANTALUM_PATH_BYTES 512u

/* Conditions of tantalum_fill_store(). */
#define TANTALUM_STORE_ALWAYS 0u
#define TANTALUM_STORE_IF_THERE 1u
#define TANTALUM_STORE_IF_NEW 2u

/* Some of the statuses that tantalum_send() returns. */
#define TANTALUM_INVALID_FIELD 0x002
#define TANTALUM_INVALID_NAMESPACE 0x00b
#define TANTALUM_OUT_OF_RANGE 0x080
#define TANTALUM_CAPACITY_EXCEEDED 0x081
#define TANTALUM_NO_SUCH_KEY 0x087
#define TANTALUM_KEY_EXISTS 0x089
#define TANTALUM_UNMAPPED 0x1c0
#define TANTALUM_OVER_LIMIT 0x1c1
#define TANTALUM_UNKNOWN_TRANSACTION 0x1c2
#define TANTALUM_UNKNOWN_LOG 0x1c3
#define TANTALUM_SLOT_OUT_OF_ORDER 0x1c4

/* -- finding a namespace ---------------------------------------------------------------------------------------- */

/* The number of the namespace whose file this is; -1 with the reason in errno. */
static inline int tantalum_namespace_of(int file)
{
	return ioctl(file, NVME_IOCTL_ID);
}

/* Whether a generic device, as sysfs has it, belongs to a subsystem. */
static inline int tantalum_is_of(const char *device, const char *subsystem)
{
	char path[TANTALUM_PATH_BYTES], name[256] = "";
	FILE *attribute;

	snprintf(path, sizeof(path), "%s/%s/device/subsysnqn", TANTALUM_GENERIC, device);
	attribute = fopen(path, "r");
	if (attribute == NULL)
		return 0;
	if (fgets(name, sizeof(name), attribute) != NULL)
		name[strcspn(name, "\n")] = 0;
	fclose(attribute);
	return strcmp(name, subsystem) == 0;
}

/*
 * Finds the file of a namespace of the subsystem with this name (NQN), and writes its path. The file's own name does not
 * tell: the numbers in it are not those of namespaces, and since Linux 6.12 they differ each time that a drive is attached.
 * Returns 0, or -1 with the reason in errno: ENOENT if no such namespace is attached, EACCES if its file may not be opened.
 */
static inline int tantalum_find(const char *subsystem, uint32_t namespace_id, char path[TANTALUM_PATH_BYTES])
{
	DIR *devices = opendir(TANTALUM_GENERIC);
	int reason = ENOENT, is_found = 0;
	struct dirent *device;

	while (devices != NULL && !is_found && (device = readdir(devices)) != NULL) {
		int file;

		if (device->d_name[0] == '.' || !tantalum_is_of(device->d_name, subsystem))
			continue;
		snprintf(path, TANTALUM_PATH_BYTES, "%s/%s", TANTALUM_DEV, device->d_name);
		file = open(path, O_RDONLY);
		if (file < 0) {
			reason = errno;
			continue;
		}
		is_found = tantalum_namespace_of(file) == (int)namespace_id;
		close(file);
	}
	if (devices != NULL)
		closedir(devices);
	if (is_found)
		return 0;
	errno = reason;
	return -1;
}

/* -- sending ---------------------------------------------------------------------------------------------------- */

/*
 * Gives a command to the drive and waits for it. Returns 0, or NVMe's status (its type in bits 10:8, its code in bits
 * 7:0), or -1 if the system refused the command, with the reason in errno. command->result is what the drive gives back:
 * a transaction, a generation, the size of a value.
 */
static inline int tantalum_send(int file, struct nvme_passthru_cmd64 *command)
{
	int status = ioctl(file, NVME_IOCTL_IO64_CMD, command);

	return status > 0 ? status & 0x7ff : status;
}

static inline void tantalum_fill(struct nvme_passthru_cmd64 *command, uint8_t opcode, uint32_t namespace_id,
				 const void *data, uint32_t bytes)
{
	memset(command, 0, sizeof(*command));
	command->opcode = opcode;
	command->nsid = namespace_id;
	command->addr = (uint64_t)(uintptr_t)data;
	command->data_len = bytes;
}

/* -- data of commands ------------------------------------------------------------------------------------------- */

/* Data of a command, in a buffer of the caller's. */
struct tantalum_data {
	unsigned char *bytes;
	size_t room;
	size_t used;
	/* Ranges, block ranges or units so far. */
	uint32_t count;
};

/* Data without contents yet, in a buffer of this many bytes. */
static inline struct tantalum_data tantalum_data_in(void *buffer, size_t room)
{
	struct tantalum_data data = { (unsigned char *)buffer, room, 0, 0 };

	return data;
}

/* Takes zeros off the rest of the buffer; NULL, with errno ENOSPC, if there is too little. */
static inline unsigned char *tantalum_take(struct tantalum_data *data, size_t bytes)
{
	unsigned char *taken = data->bytes + data->used;

	if (bytes > data->room - data->used) {
		errno = ENOSPC;
		return NULL;
	}
	memset(taken, 0, bytes);
	data->used += bytes;
	return taken;
}

static inline void tantalum_put_le(unsigned char *to, uint64_t number, unsigned bytes)
{
	for (unsigned index = 0; index < bytes; index++)
		to[index] = (unsigned char)(number >> 8 * index);
}

/* Adds a range for tantalum_fill_share(). Returns 0, or -1 if the buffer is full. */
static inline int tantalum_add_range(struct tantalum_data *data, uint32_t to, uint32_t from, uint32_t units)
{
	unsigned char *range = tantalum_take(data, 16);

	if (range == NULL)
		return -1;
	tantalum_put_le(range, to, 4);
	tantalum_put_le(range + 4, from, 4);
	tantalum_put_le(range + 8, units, 4);
	data->count++;
	return 0;
}

/* Adds logical blocks for tantalum_fill_deallocate(). Returns 0, or -1 if the buffer is full. */
static inline int tantalum_add_blocks(struct tantalum_data *data, uint64_t first, uint32_t count)
{
	unsigned char *range = tantalum_take(data, 16);

	if (range == NULL)
		return -1;
	tantalum_put_le(range + 4, count, 4);
	tantalum_put_le(range + 8, first, 8);
	data->count++;
	return 0;
}

/*
 * Adds a unit for tantalum_fill_write_atomic() or tantalum_fill_write_batch(), before any record. Returns 0, or -1 if
 * the buffer is full: it needs 4096 bytes besides those of the units.
 */
static inline int tantalum_add_unit(struct tantalum_data *data, uint32_t lpn, const void *unit)
{
	unsigned char *to;

	if (data->count == TANTALUM_UNIT_BYTES / 4) {
		errno = ENOSPC;
		return -1;
	}
	if (data->used == 0 && tantalum_take(data, TANTALUM_UNIT_BYTES) == NULL)
		return -1;
	to = tantalum_take(data, TANTALUM_UNIT_BYTES);
	if (to == NULL)
		return -1;
	memcpy(to, unit, TANTALUM_UNIT_BYTES);
	tantalum_put_le(data->bytes + 4 * (size_t)data->count, lpn, 4);
	data->count++;
	return 0;
}

/*
 * Adds a record for tantalum_fill_put() or tantalum_fill_write_batch(): its namespace as the host names it (2 and up),
 * a key of 1 to 16 bytes, and its value; a value of NULL deletes the key. Returns 0, or -1 if the buffer is full or the
 * key too long.
 */
static inline int tantalum_add_record(struct tantalum_data *data, uint32_t namespace_id, const void *key,
				      size_t key_bytes, const void *value, uint32_t value_bytes)
{
	size_t padded = value == NULL ? 0 : ((size_t)value_bytes + 3) / 4 * 4;
	unsigned char *record;

	if (key_bytes > TANTALUM_KEY_BYTES) {
		errno = EINVAL;
		return -1;
	}
	record = tantalum_take(data, 32 + padded);
	if (record == NULL)
		return -1;
	tantalum_put_le(record, namespace_id, 4);
	tantalum_put_le(record + 4, value == NULL ? UINT32_MAX : value_bytes, 4);
	tantalum_put_le(record + 8, key_bytes, 2);
	memcpy(record + 16, key, key_bytes);
	if (value != NULL)
		memcpy(record + 32, value, value_bytes);
	return 0;
}

/* What a page of a hinted log says about itself. */
struct tantalum_hint {
	/* The life of the log, as tantalum_fill_begin_log() gave it. */
	uint64_t generation;
	uint32_t attempt;
	/* The slot at which the attempt starts. */
	uint32_t start;
	/* The first slot of its transaction. */
	uint32_t first;
	uint32_t slot;
	/* 1 if it ends its transaction. */
	uint32_t end;
	/* Where it belongs, or TANTALUM_NO_HOME. */
	uint32_t home;
	/* What travels with it. */
	unsigned char metadata[24];
};

/* Adds a page for tantalum_fill_write_hinted(). Returns 0, or -1 if the buffer is full. */
static inline int tantalum_add_page(struct tantalum_data *data, const struct tantalum_hint *hint, const void *unit)
{
	unsigned char *page = tantalum_take(data, 64 + TANTALUM_UNIT_BYTES);

	if (page == NULL)
		return -1;
	tantalum_put_le(page, hint->generation, 8);
	tantalum_put_le(page + 8, hint->attempt, 4);
	tantalum_put_le(page + 12, hint->start, 4);
	tantalum_put_le(page + 16, hint->first, 4);
	tantalum_put_le(page + 20, hint->slot, 4);
	tantalum_put_le(page + 24, hint->end, 4);
	tantalum_put_le(page + 28, hint->home, 4);
	memcpy(page + 32, hint->metadata, sizeof(hint->metadata));
	memcpy(page + 64, unit, TANTALUM_UNIT_BYTES);
	return 0;
}

/* -- vendor commands -------------------------------------------------------------------------------------------- */

/* Moves the mappings of `units` units. */
static inline void tantalum_fill_remap(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, uint32_t from,
				       uint32_t to, uint32_t units)
{
	tantalum_fill(command, 0x80, namespace_id, NULL, 0);
	command->cdw10 = from;
	command->cdw11 = to;
	command->cdw12 = units;
}

/* Shares the ranges in `data`, in one step; durable when it is done, or if `deferred` by the next flush. */
static inline void tantalum_fill_share(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
				       const struct tantalum_data *data, int deferred)
{
	tantalum_fill(command, 0x81, namespace_id, data->bytes, (uint32_t)data->used);
	command->cdw12 = ((data->count - 1) & 0xffff) | (deferred ? 1u << 31 : 0);
}

/* Writes the units in `data`, all or nothing; durable when it is done. */
static inline void tantalum_fill_write_atomic(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
					      const struct tantalum_data *data)
{
	tantalum_fill(command, 0x85, namespace_id, data->bytes, (uint32_t)data->used);
	command->cdw12 = (data->count - 1) & 0xffff;
}

/* Writes the units in `data`, and puts and deletes the records behind them, all or nothing; durable when it is done. */
static inline void tantalum_fill_write_batch(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
					     const struct tantalum_data *data)
{
	tantalum_fill(command, 0xa5, namespace_id, data->bytes, (uint32_t)data->used);
	command->cdw10 = (uint32_t)data->used;
	command->cdw12 = (data->count - 1) & 0xffff;
}

/* Puts and deletes the records in `data`, of any namespaces, all or nothing. Send it to any key-value namespace. */
static inline void tantalum_fill_put(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
				     const struct tantalum_data *data)
{
	tantalum_fill(command, 0xa1, namespace_id, data->bytes, (uint32_t)data->used);
	command->cdw10 = (uint32_t)data->used;
}

/* Begins a transaction; command->result names it. */
static inline void tantalum_fill_begin(struct nvme_passthru_cmd64 *command, uint32_t namespace_id)
{
	tantalum_fill(command, 0x84, namespace_id, NULL, 0);
}

static inline void tantalum_fill_transaction(struct nvme_passthru_cmd64 *command, uint64_t transaction)
{
	command->cdw14 = (uint32_t)transaction;
	command->cdw15 = (uint32_t)(transaction >> 32);
}

/* Writes a unit in a transaction. */
static inline void tantalum_fill_tx_write(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
					  uint64_t transaction, uint32_t lpn, const void *unit)
{
	tantalum_fill(command, 0x89, namespace_id, unit, TANTALUM_UNIT_BYTES);
	command->cdw10 = lpn;
	tantalum_fill_transaction(command, transaction);
}

/* Reads a unit as a transaction sees it. */
static inline void tantalum_fill_tx_read(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
					 uint64_t transaction, uint32_t lpn, void *unit)
{
	tantalum_fill(command, 0x8a, namespace_id, unit, TANTALUM_UNIT_BYTES);
	command->cdw10 = lpn;
	tantalum_fill_transaction(command, transaction);
}

/* Commits a transaction. */
static inline void tantalum_fill_commit(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
					uint64_t transaction)
{
	tantalum_fill(command, 0x88, namespace_id, NULL, 0);
	tantalum_fill_transaction(command, transaction);
}

/* Aborts a transaction. */
static inline void tantalum_fill_abort(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
				       uint64_t transaction)
{
	tantalum_fill(command, 0x8c, namespace_id, NULL, 0);
	tantalum_fill_transaction(command, transaction);
}

/* Begins a life of a hinted log; command->result is its generation. */
static inline void tantalum_fill_begin_log(struct nvme_passthru_cmd64 *command, uint32_t namespace_id)
{
	tantalum_fill(command, 0x90, namespace_id, NULL, 0);
}

/* Writes the page in `data` to a unit of a hinted log. */
static inline void tantalum_fill_write_hinted(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, uint32_t lpn,
					      const struct tantalum_data *data)
{
	tantalum_fill(command, 0x91, namespace_id, data->bytes, (uint32_t)data->used);
	command->cdw10 = lpn;
}

/* -- NVMe's commands on blocks ---------------------------------------------------------------------------------- */

static inline void tantalum_fill_blocks(struct nvme_passthru_cmd64 *command, uint64_t first, uint32_t count)
{
	command->cdw10 = (uint32_t)first;
	command->cdw11 = (uint32_t)(first >> 32);
	command->cdw12 = (count - 1) & 0xffff;
}

/* Makes everything durable that was done before. */
static inline void tantalum_fill_flush(struct nvme_passthru_cmd64 *command, uint32_t namespace_id)
{
	tantalum_fill(command, 0x00, namespace_id, NULL, 0);
}

/* Writes `count` logical blocks of `bytes` bytes in all; if `force`, to flash before it is done. */
static inline void tantalum_fill_write(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, uint64_t first,
				       uint32_t count, const void *data, uint32_t bytes, int force)
{
	tantalum_fill(command, 0x01, namespace_id, data, bytes);
	tantalum_fill_blocks(command, first, count);
	command->cdw12 |= force ? 1u << 30 : 0;
}

/* Reads `count` logical blocks of `bytes` bytes in all. */
static inline void tantalum_fill_read(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, uint64_t first,
				      uint32_t count, void *data, uint32_t bytes)
{
	tantalum_fill(command, 0x02, namespace_id, data, bytes);
	tantalum_fill_blocks(command, first, count);
}

/* Deallocates the logical blocks in `data`: a log's page that is trimmed claims its home no more. */
static inline void tantalum_fill_deallocate(struct nvme_passthru_cmd64 *command, uint32_t namespace_id,
					    const struct tantalum_data *data)
{
	tantalum_fill(command, 0x09, namespace_id, data->bytes, (uint32_t)data->used);
	command->cdw10 = (data->count - 1) & 0xff;
	command->cdw11 = 1u << 2;
}

/* -- the Key Value command set ---------------------------------------------------------------------------------- */

/* A command on a key of 1 to 16 bytes. Returns 0, or -1 if the key is too long. */
static inline int tantalum_fill_key(struct nvme_passthru_cmd64 *command, const void *key, size_t key_bytes)
{
	unsigned char field[TANTALUM_KEY_BYTES] = { 0 };
	uint32_t dwords[4] = { 0 };

	if (key_bytes > TANTALUM_KEY_BYTES) {
		errno = EINVAL;
		return -1;
	}
	if (key_bytes > 0)
		memcpy(field, key, key_bytes);
	for (unsigned index = 0; index < TANTALUM_KEY_BYTES; index++)
		dwords[index / 4] |= (uint32_t)field[index] << 8 * (index % 4);
	command->cdw2 = dwords[0];
	command->cdw3 = dwords[1];
	command->cdw14 = dwords[2];
	command->cdw15 = dwords[3];
	command->cdw11 |= (uint32_t)key_bytes;
	return 0;
}

/* Stores a value under a key. Returns 0, or -1 if the key is too long, as the other functions of this part do. */
static inline int tantalum_fill_store(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, const void *key,
				      size_t key_bytes, const void *value, uint32_t bytes, unsigned condition)
{
	tantalum_fill(command, 0x01, namespace_id, value, bytes);
	command->cdw10 = bytes;
	command->cdw11 = condition << 8;
	return tantalum_fill_key(command, key, key_bytes);
}

/* Reads at most `bytes` bytes of a value; command->result is the size of all of it. */
static inline int tantalum_fill_retrieve(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, const void *key,
					 size_t key_bytes, void *value, uint32_t bytes)
{
	tantalum_fill(command, 0x02, namespace_id, value, bytes);
	command->cdw10 = bytes;
	return tantalum_fill_key(command, key, key_bytes);
}

/*
 * Lists keys from one on, or with key_bytes of 0 from the beginning: their number in four bytes, then for each key its
 * length in two bytes, the key, and zeros up to a multiple of four.
 */
static inline int tantalum_fill_list(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, const void *key,
				     size_t key_bytes, void *list, uint32_t bytes)
{
	tantalum_fill(command, 0x06, namespace_id, list, bytes);
	command->cdw10 = bytes;
	return tantalum_fill_key(command, key, key_bytes);
}

/* Deletes a key. */
static inline int tantalum_fill_delete(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, const void *key,
				       size_t key_bytes)
{
	tantalum_fill(command, 0x10, namespace_id, NULL, 0);
	return tantalum_fill_key(command, key, key_bytes);
}

/* Ends with status 0 if a key is there. */
static inline int tantalum_fill_exist(struct nvme_passthru_cmd64 *command, uint32_t namespace_id, const void *key,
				      size_t key_bytes)
{
	tantalum_fill(command, 0x14, namespace_id, NULL, 0);
	return tantalum_fill_key(command, key, key_bytes);
}

#endif
