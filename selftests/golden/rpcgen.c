// SPDX-License-Identifier: GPL-2.0-only
/*
 * What the code that rpcgen makes of the drafts' XDR says of messages: selftests/golden/check links it with that code.
 *
 * Standard input: messages, each with its length before it, 32 bits, most significant byte first. For each a line:
 *
 *	good N	the header decodes, is N bytes long, and is the same N bytes when it is encoded again
 *	value N	an enum that XDR's library takes has a value that it does not have
 *	other N	encoded again it is other bytes: a boolean that is neither 0 nor 1, or padding that is not zero
 *	bad	it does not decode, or what is inside rdma_optinfo or the data of a property does not
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "version-two-03.h"
#include "rtrext-01.h"

enum verdict { GOOD, VALUE, OTHER, BAD };

static const char *const words[] = { "good", "value", "other", "bad" };

static enum verdict worst(enum verdict a, enum verdict b)
{
	return a > b ? a : b;
}

/*
 * Decode @length bytes as @codec has them into @into, which is @size bytes, and encode them again. *@used is how many
 * were read. The caller frees @into by xdr_free() whatever this returns.
 */
static enum verdict both_ways(const char *bytes, unsigned int length, xdrproc_t codec, void *into,
			      size_t size, unsigned int *used)
{
	enum verdict verdict = GOOD;
	char *copy;
	XDR xdr;

	memset(into, 0, size);
	xdrmem_create(&xdr, (char *)bytes, length, XDR_DECODE);
	if (!codec(&xdr, into))
		return BAD;
	*used = xdr_getpos(&xdr);
	copy = calloc(1, length + 4);
	xdrmem_create(&xdr, copy, length + 4, XDR_ENCODE);
	if (!codec(&xdr, into) || xdr_getpos(&xdr) != *used || memcmp(copy, bytes, *used))
		verdict = OTHER;
	free(copy);
	return verdict;
}

/* The same for bytes that have to be used up, and are of no more interest. */
static enum verdict whole(const char *bytes, unsigned int length, xdrproc_t codec, void *into, size_t size)
{
	unsigned int used;
	enum verdict verdict = both_ways(bytes, length, codec, into, size, &used);

	if (verdict != BAD && used != length)
		verdict = BAD;
	return verdict;
}

static enum verdict property(const rpcrdma2_propval *value)
{
	union {
		rpcrdma2_prop_rbsiz number;
		rpcrdma2_prop_brs brs;
		xpr_rbs structure;
	} data;
	xdrproc_t codec = (xdrproc_t)xdr_rpcrdma2_prop_rbsiz;
	enum verdict verdict;

	/* No data is the default; the last known property is 6. */
	if (!value->rdma_data.rdma_data_len || !value->rdma_which || value->rdma_which > XPROP_RESPSXLIM)
		return GOOD;
	if (value->rdma_which == RDMA2_PROPID_BRS)
		codec = (xdrproc_t)xdr_rpcrdma2_prop_brs;
	else if (value->rdma_which == XPROP_RBSTRUCT)
		codec = (xdrproc_t)xdr_xpr_rbs;
	verdict = whole(value->rdma_data.rdma_data_val, value->rdma_data.rdma_data_len, codec, &data, sizeof(data));
	if (verdict == GOOD && value->rdma_which == RDMA2_PROPID_BRS && (unsigned int)data.brs > RDMA2_BKREQSUP_GENL)
		verdict = VALUE;
	xdr_free(codec, (char *)&data);
	return verdict;
}

static enum verdict properties(const rpcrdma2_propset *set)
{
	enum verdict verdict = GOOD;
	unsigned int i;

	for (i = 0; i < set->rpcrdma2_propset_len; i++)
		verdict = worst(verdict, property(&set->rpcrdma2_propset_val[i]));
	return verdict;
}

static int no_direction(rpcrdma2_dir direction)
{
	return (unsigned int)direction > RDMA2_REPLY;
}

static enum verdict optional(const rpcrdma2_optional *part)
{
	union {
		optxmt_req request;
		optxmt_resp response;
		optxmt_cont continuation;
		optrept_err error;
	} info;
	xdrproc_t codec;
	enum verdict verdict;

	if (no_direction(part->rdma_optdir))
		return VALUE;
	switch (part->rdma_opttype) {
	case ROPT_XMTREQ:
		codec = (xdrproc_t)xdr_optxmt_req;
		break;
	case ROPT_XMTRESP:
		codec = (xdrproc_t)xdr_optxmt_resp;
		break;
	case ROPT_XMTCONT:
		codec = (xdrproc_t)xdr_optxmt_cont;
		break;
	case ROPT_REPTERR:
		codec = (xdrproc_t)xdr_optrept_err;
		break;
	default:
		return GOOD;
	}
	verdict = whole(part->rdma_optinfo.rdma_optinfo_val, part->rdma_optinfo.rdma_optinfo_len, codec, &info,
			sizeof(info));
	if (verdict != BAD && part->rdma_opttype == ROPT_REPTERR &&
	    (no_direction(info.error.optre_bad.xmsi_dir) ||
	     (info.error.optre_lead && no_direction(info.error.optre_lead->xmsi_dir))))
		verdict = worst(verdict, VALUE);
	xdr_free(codec, (char *)&info);
	return verdict;
}

static enum verdict judge(const char *bytes, unsigned int length, unsigned int *used)
{
	rpcrdma2_xprt_hdr header;
	rpcrdma2_body *body = &header.rdma_body;
	enum verdict verdict;

	verdict = both_ways(bytes, length, (xdrproc_t)xdr_rpcrdma2_xprt_hdr, &header, sizeof(header), used);
	if (verdict == BAD)
		goto out;
	switch (body->rdma_proc) {
	case RDMA2_MSG:
	case RDMA2_NOMSG:
		if (no_direction(body->rpcrdma2_body_u.rdma_chunks.rdma_direction))
			verdict = worst(verdict, VALUE);
		break;
	case RDMA2_OPTIONAL:
		verdict = worst(verdict, optional(&body->rpcrdma2_body_u.rdma_optional));
		break;
	case RDMA2_CONNPROP:
		verdict = worst(verdict, properties(&body->rpcrdma2_body_u.rdma_connprop.rdma_start));
		break;
	case RDMA2_REQPROP:
		verdict = worst(verdict, properties(&body->rpcrdma2_body_u.rdma_reqprop.rdma_want));
		break;
	case RDMA2_RESPROP:
		verdict = worst(verdict, properties(&body->rpcrdma2_body_u.rdma_resprop.rdma_other));
		break;
	case RDMA2_UPDPROP:
		verdict = worst(verdict, properties(&body->rpcrdma2_body_u.rdma_updprop.rdma_now));
		break;
	case RDMA2_ERROR:
		break;
	}
out:
	xdr_free((xdrproc_t)xdr_rpcrdma2_xprt_hdr, (char *)&header);
	return verdict;
}

int main(void)
{
	/* The library allocates whatever a count says, before it looks whether the bytes are there. */
	const struct rlimit memory = { 64 << 20, 64 << 20 };
	unsigned char size[4];

	setrlimit(RLIMIT_AS, &memory);

	while (fread(size, 1, 4, stdin) == 4) {
		unsigned int length = (unsigned int)size[0] << 24 | size[1] << 16 | size[2] << 8 | size[3];
		char *bytes = malloc(length ? length : 1);
		unsigned int used = 0;
		enum verdict verdict;

		if (!bytes || fread(bytes, 1, length, stdin) != length)
			return 1;
		verdict = judge(bytes, length, &used);
		if (verdict == BAD)
			puts(words[verdict]);
		else
			printf("%s %u\n", words[verdict], used);
		free(bytes);
	}
	return 0;
}
