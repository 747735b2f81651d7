/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_ASSIGN_STR_ONE_ARG: does __assign_str() of a trace event take the field alone? */

#include <linux/string.h>
#include <linux/trace_events.h>
#include <linux/tracepoint.h>
#include <linux/types.h>

#include "trace/stages/stage6_event_callback.h"

/* The macro expands to code about an event. Only its number of arguments matters here. */
#undef __get_str
#define __get_str(field) field
#undef __get_dynamic_array_len
#define __get_dynamic_array_len(field) ((int)sizeof(#field))

struct probe_offsets {
	const char *text_ptr_;
};

void probe(char *text, const char *source, struct probe_offsets __data_offsets);
void probe(char *text, const char *source, struct probe_offsets __data_offsets)
{
#ifdef PROBE
	__assign_str(text);
#else
	__assign_str(text, source);
#endif
}
