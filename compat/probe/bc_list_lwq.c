/* SPDX-License-Identifier: GPL-2.0-only */
/* HAVE_BC_LIST_LWQ: is the list of callback requests an lwq? */

#include <linux/sunrpc/xprt.h>
#include <linux/sunrpc/svc.h>

#ifdef PROBE
void probe(struct rpc_rqst *rqst, struct svc_serv *serv);
void probe(struct rpc_rqst *rqst, struct svc_serv *serv)
{
	lwq_enqueue(&rqst->rq_bc_list, &serv->sv_cb_list);
}
#else
void probe(struct rpc_rqst *rqst, struct svc_serv *serv);
void probe(struct rpc_rqst *rqst, struct svc_serv *serv)
{
	spin_lock(&serv->sv_cb_lock);
	list_add(&rqst->rq_bc_list, &serv->sv_cb_list);
	spin_unlock(&serv->sv_cb_lock);
}
#endif
