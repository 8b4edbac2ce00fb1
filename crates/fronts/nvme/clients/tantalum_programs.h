/*
 * Programs in a Tantalum drive, for programs on a Linux host: endpoints, installing, sending, serving, waiting.
 *
 * Header only; it needs Linux's headers, tantalum_nvme.h and the C library. Commands go to the drive by way of the file of the
 * namespace with the blocks, 1, which tantalum_find() finds. docs/programs.md tells what programs are, docs/nvme.md what the
 * commands do.
 *
 *     struct tantalum_endpoint endpoint;
 *     uint32_t program;
 *     int32_t answer;
 *     tantalum_open_endpoint(file, 0, &endpoint);
 *     tantalum_install(&endpoint, NULL, module, module_bytes, &program);
 *     tantalum_ask(&endpoint, 3, program, 0, &page, sizeof(page), &answer);
 *
 * Functions return 0, or NVMe's status, or -1 with the reason in errno. After TANTALUM_NOT_INSTALLED tantalum_refusal() has
 * the reason in words. Several threads may use an endpoint, but only one may wait in tantalum_receive().
 */
#ifndef TANTALUM_PROGRAMS_H
#define TANTALUM_PROGRAMS_H

#include <stdlib.h>

#include "tantalum_nvme.h"

/* Statuses of these commands. */
#define TANTALUM_VALUE_SIZE 0x085
#define TANTALUM_UNKNOWN_ENDPOINT 0x1c5
#define TANTALUM_NOT_ALLOWED 0x1c6
#define TANTALUM_UNKNOWN_PROGRAM 0x1c7
#define TANTALUM_NOT_INSTALLED 0x1c8
#define TANTALUM_NO_QUEUE_PAIR 0x1c9

/* Answers of the drive itself; those of handlers are 0 and above. As in tantalum_spu.h. */
#define TANTALUM_ANSWER_OK 0
#define TANTALUM_ANSWER_NOT_DELIVERED (-1)
#define TANTALUM_ANSWER_NO_PROGRAM (-2)
#define TANTALUM_ANSWER_NO_HANDLER (-3)
#define TANTALUM_ANSWER_NOT_ALLOWED (-4)
#define TANTALUM_ANSWER_NO_PERMISSION (-5)
#define TANTALUM_ANSWER_NO_ROOM (-7)
#define TANTALUM_ANSWER_ENDED (-8)
#define TANTALUM_ANSWER_TIMEOUT (-9)

/* Rights to a range. */
#define TANTALUM_READ 1u
#define TANTALUM_WRITE 2u

/* Counters of a program. */
#define TANTALUM_COUNTERS 8u
/* Bytes of an event before its body. */
#define TANTALUM_EVENT_BYTES 48u
/* The longest wait for an event. */
#define TANTALUM_MOST_WAIT_MS 10000u

/* An endpoint: what a process sends with. */
struct tantalum_endpoint {
	int file;
	/* Names it in commands. Whoever knows it and has the device's file can use the endpoint. */
	uint64_t key;
	/* Its number, as programs see it. */
	uint32_t number;
	/* Its process: what rights are granted to. */
	uint32_t process;
	uint32_t processors;
	uint32_t stripe_bytes;
	uint64_t capacity_bytes;
	/* The longest body of a request. */
	uint32_t body_bytes;
};

/* How a program is installed. */
struct tantalum_installation {
	/* Its own region, which only the kernel gives; 0 and 0 for none. */
	uint64_t region_start;
	uint64_t region_end;
	/* Whether every process may send it requests. */
	int is_open;
};

enum tantalum_event_kind {
	TANTALUM_NOTHING,
	/* A program sends a request. */
	TANTALUM_REQUEST,
	/* It was decided about a permission that was missing. */
	TANTALUM_PERMISSION,
	/* A program of this process was ended; the body says why. */
	TANTALUM_PROGRAM_ENDED,
};

struct tantalum_event {
	enum tantalum_event_kind kind;
	uint32_t processor;
	uint32_t program;
	uint32_t handler;
	/* Bytes of the body. */
	uint32_t bytes;
	/* Of a permission: whether there is one now, and for what. If so, the request can be sent again. */
	int is_granted;
	uint64_t start;
	uint64_t end;
	/* The drive's time. */
	uint64_t at_ns;
};

/* What is called for requests of programs to one number. */
struct tantalum_handler {
	uint32_t number;
	void (*serve)(void *context, const struct tantalum_event *event, const void *body);
};

static inline uint64_t tantalum_get_le(const unsigned char *from, unsigned bytes)
{
	uint64_t number = 0;

	for (unsigned index = 0; index < bytes; index++)
		number |= (uint64_t)from[index] << 8 * index;
	return number;
}

static inline void tantalum_fill_program(struct nvme_passthru_cmd64 *command, uint8_t opcode, uint64_t key,
					 const void *data, uint32_t bytes)
{
	tantalum_fill(command, opcode, 1, data, bytes);
	command->cdw14 = (uint32_t)key;
	command->cdw15 = (uint32_t)(key >> 32);
}

/* -- endpoints --------------------------------------------------------------------------------------------------- */

static inline int tantalum_open_as(int file, uint32_t flags, uint64_t key, struct tantalum_endpoint *endpoint)
{
	struct nvme_passthru_cmd64 command;
	unsigned char opened[64] = { 0 };
	int status;

	tantalum_fill_program(&command, 0xc2, key, opened, sizeof(opened));
	command.cdw10 = flags;
	status = tantalum_send(file, &command);
	if (status != 0)
		return status;
	endpoint->file = file;
	endpoint->key = tantalum_get_le(opened, 8);
	endpoint->number = (uint32_t)tantalum_get_le(opened + 8, 4);
	endpoint->process = (uint32_t)tantalum_get_le(opened + 12, 4);
	endpoint->processors = (uint32_t)tantalum_get_le(opened + 16, 4);
	endpoint->stripe_bytes = (uint32_t)tantalum_get_le(opened + 20, 4);
	endpoint->capacity_bytes = tantalum_get_le(opened + 24, 8);
	endpoint->body_bytes = (uint32_t)tantalum_get_le(opened + 32, 4);
	return 0;
}

/* Opens an endpoint of a new process, or of the kernel if the server lets this host. */
static inline int tantalum_open_endpoint(int file, int is_kernel, struct tantalum_endpoint *endpoint)
{
	return tantalum_open_as(file, is_kernel != 0, 0, endpoint);
}

/* Opens a further endpoint of the process that has this one. */
static inline int tantalum_open_another(const struct tantalum_endpoint *first, struct tantalum_endpoint *endpoint)
{
	return tantalum_open_as(first->file, 0, first->key, endpoint);
}

/* Closes an endpoint. With its last one a process ends, and its programs are removed. */
static inline int tantalum_close_endpoint(const struct tantalum_endpoint *endpoint)
{
	struct nvme_passthru_cmd64 command;

	tantalum_fill_program(&command, 0xc4, endpoint->key, NULL, 0);
	return tantalum_send(endpoint->file, &command);
}

/* -- programs ---------------------------------------------------------------------------------------------------- */

/* Installs a module on all processors. Without an installation it is for this process alone, and has no region. */
static inline int tantalum_install(const struct tantalum_endpoint *endpoint,
				   const struct tantalum_installation *installation, const void *module, size_t bytes,
				   uint32_t *program)
{
	struct nvme_passthru_cmd64 command;
	unsigned char *data;
	int status;

	if (bytes > TANTALUM_TRANSFER_BYTES - 32) {
		errno = EFBIG;
		return -1;
	}
	data = (unsigned char *)calloc(1, 32 + bytes);
	if (data == NULL)
		return -1;
	if (installation != NULL) {
		tantalum_put_le(data, installation->region_start, 8);
		tantalum_put_le(data + 8, installation->region_end, 8);
		tantalum_put_le(data + 16, installation->is_open != 0, 4);
	}
	memcpy(data + 32, module, bytes);
	tantalum_fill_program(&command, 0xc5, endpoint->key, data, (uint32_t)(32 + bytes));
	command.cdw10 = command.data_len;
	status = tantalum_send(endpoint->file, &command);
	free(data);
	*program = (uint32_t)command.result;
	return status;
}

/* Removes a program. */
static inline int tantalum_uninstall(const struct tantalum_endpoint *endpoint, uint32_t program)
{
	struct nvme_passthru_cmd64 command;

	tantalum_fill_program(&command, 0xc8, endpoint->key, NULL, 0);
	command.cdw10 = program;
	return tantalum_send(endpoint->file, &command);
}

/* Lets a program call handlers of another; bit 0 of `handlers` stands for handler 0. */
static inline int tantalum_allow_calls(const struct tantalum_endpoint *endpoint, uint32_t from, uint32_t to,
				       uint64_t handlers)
{
	struct nvme_passthru_cmd64 command;

	tantalum_fill_program(&command, 0xcc, endpoint->key, NULL, 0);
	command.cdw10 = from;
	command.cdw11 = to;
	command.cdw12 = (uint32_t)handlers;
	command.cdw13 = (uint32_t)(handlers >> 32);
	return tantalum_send(endpoint->file, &command);
}

static inline int tantalum_grant_as(const struct tantalum_endpoint *endpoint, unsigned char *granted)
{
	struct nvme_passthru_cmd64 command;

	tantalum_fill_program(&command, 0xc9, endpoint->key, granted, 32);
	return tantalum_send(endpoint->file, &command);
}

/* The kernel gives a process rights to a range instead of those that it had there; 0 takes them away. */
static inline int tantalum_grant(const struct tantalum_endpoint *endpoint, uint32_t process, uint64_t start, uint64_t end,
				 uint32_t rights)
{
	unsigned char granted[32] = { 0 };

	tantalum_put_le(granted, process, 4);
	tantalum_put_le(granted + 4, rights, 4);
	tantalum_put_le(granted + 8, start, 8);
	tantalum_put_le(granted + 16, end, 8);
	return tantalum_grant_as(endpoint, granted);
}

/* The kernel lets a process read the records of a namespace. */
static inline int tantalum_grant_namespace(const struct tantalum_endpoint *endpoint, uint32_t process,
					   uint32_t namespace_id)
{
	unsigned char granted[32] = { 0 };

	tantalum_put_le(granted, process, 4);
	tantalum_put_le(granted + 24, namespace_id, 4);
	return tantalum_grant_as(endpoint, granted);
}

/* -- requests ---------------------------------------------------------------------------------------------------- */

/* Sends a request to a handler on a processor and waits for the answer. */
static inline int tantalum_ask(const struct tantalum_endpoint *endpoint, uint32_t processor, uint32_t program,
			       uint32_t handler, const void *body, uint32_t bytes, int32_t *answer)
{
	struct nvme_passthru_cmd64 command;
	int status;

	tantalum_fill_program(&command, 0xcd, endpoint->key, body, bytes);
	command.cdw10 = bytes;
	command.cdw11 = processor;
	command.cdw12 = program;
	command.cdw13 = handler;
	status = tantalum_send(endpoint->file, &command);
	*answer = (int32_t)(uint32_t)command.result;
	return status;
}

/*
 * Waits for the next event of an endpoint, whose kind is TANTALUM_NOTHING if none comes in time. The event comes in
 * `buffer`, of at least TANTALUM_EVENT_BYTES; its body follows at buffer + TANTALUM_EVENT_BYTES. If the body is longer than
 * the room for it, the status is TANTALUM_VALUE_SIZE, event->bytes what the buffer must have, and the event stays.
 */
static inline int tantalum_receive(const struct tantalum_endpoint *endpoint, struct tantalum_event *event, void *buffer,
				   uint32_t bytes, uint32_t wait_ms)
{
	const unsigned char *told = (const unsigned char *)buffer;
	struct nvme_passthru_cmd64 command;
	int status;

	memset(event, 0, sizeof(*event));
	tantalum_fill_program(&command, 0xce, endpoint->key, buffer, bytes);
	command.cdw10 = bytes;
	command.cdw11 = wait_ms < TANTALUM_MOST_WAIT_MS ? wait_ms : TANTALUM_MOST_WAIT_MS;
	status = tantalum_send(endpoint->file, &command);
	if (status != 0) {
		event->bytes = (uint32_t)command.result;
		return status;
	}
	if (command.result == 0)
		return 0;
	event->kind = (enum tantalum_event_kind)tantalum_get_le(told, 4);
	event->processor = (uint32_t)tantalum_get_le(told + 4, 4);
	event->program = (uint32_t)tantalum_get_le(told + 8, 4);
	event->handler = (uint32_t)tantalum_get_le(told + 12, 4);
	event->bytes = (uint32_t)tantalum_get_le(told + 16, 4);
	event->is_granted = tantalum_get_le(told + 20, 4) != 0;
	event->start = tantalum_get_le(told + 24, 8);
	event->end = tantalum_get_le(told + 32, 8);
	event->at_ns = tantalum_get_le(told + 40, 8);
	return 0;
}

/*
 * Waits for the next event, and if it is a request, calls the handler of its number. `event` says what came; a request for
 * which there is no handler goes to nobody.
 */
static inline int tantalum_serve(const struct tantalum_endpoint *endpoint, const struct tantalum_handler *handlers,
				 size_t count, void *context, struct tantalum_event *event, void *buffer, uint32_t bytes,
				 uint32_t wait_ms)
{
	int status = tantalum_receive(endpoint, event, buffer, bytes, wait_ms);

	if (status != 0 || event->kind != TANTALUM_REQUEST)
		return status;
	for (size_t index = 0; index < count; index++)
		if (handlers[index].number == event->handler)
			handlers[index].serve(context, event, (unsigned char *)buffer + TANTALUM_EVENT_BYTES);
	return 0;
}

/* -- debugging --------------------------------------------------------------------------------------------------- */

/*
 * Reads a program's counters, over all processors, and what it wrote to the serial port of one: at most 4096 bytes, cut to
 * the room for them and ended by a zero.
 */
static inline int tantalum_output(const struct tantalum_endpoint *endpoint, uint32_t program, uint32_t processor,
				  uint64_t counters[TANTALUM_COUNTERS], char *serial, size_t room)
{
	unsigned char output[8 * TANTALUM_COUNTERS + 4096] = { 0 };
	struct nvme_passthru_cmd64 command;
	size_t bytes;
	int status;

	tantalum_fill_program(&command, 0xd2, endpoint->key, output, sizeof(output));
	command.cdw10 = sizeof(output);
	command.cdw11 = processor;
	command.cdw12 = program;
	status = tantalum_send(endpoint->file, &command);
	if (status != 0)
		return status;
	for (unsigned index = 0; index < TANTALUM_COUNTERS; index++)
		counters[index] = tantalum_get_le(output + 8 * index, 8);
	bytes = (size_t)command.result - 8 * TANTALUM_COUNTERS;
	if (room > 0) {
		bytes = bytes < room - 1 ? bytes : room - 1;
		memcpy(serial, output + 8 * TANTALUM_COUNTERS, bytes);
		serial[bytes] = 0;
	}
	return 0;
}

/* Why a command of this endpoint was refused last, in words, ended by a zero. */
static inline int tantalum_refusal(const struct tantalum_endpoint *endpoint, char *text, size_t room)
{
	unsigned char output[4096] = { 0 };
	struct nvme_passthru_cmd64 command;
	size_t bytes;
	int status;

	tantalum_fill_program(&command, 0xd2, endpoint->key, output, sizeof(output));
	command.cdw10 = sizeof(output);
	status = tantalum_send(endpoint->file, &command);
	if (status != 0 || room == 0)
		return status;
	bytes = (size_t)command.result < room - 1 ? (size_t)command.result : room - 1;
	memcpy(text, output, bytes);
	text[bytes] = 0;
	return 0;
}

#endif
