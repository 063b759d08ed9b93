/* Shares of bandwidth. The first transfers of all SIPs share it max-min fairly, then the second ones what those leave, and so on.
   Of a SIP's transfers on one route only the first flows: it takes all that the others could have. SIPs of one cluster whose
   transfers flow on the same routes in the same order are alike: they form a class. Shares follow from how many SIPs each class
   has. Two cases are seen at a glance: L3 is what holds all flows, or each SIP's port does. Other solutions are kept for when
   the same numbers come again. */
#ifndef TOPS_TIMING_SHARES_H
#define TOPS_TIMING_SHARES_H
#include "timing.h"

/* What a transfer uses: its route. */
enum {
    ROUTE_L1_L3, ROUTE_L1_L2, ROUTE_L2_L3, ROUTE_L1, ROUTE_L3_L3, ROUTE_L2_L2, ROUTE_FILL_L3, ROUTE_FILL_L2,
    ROUTE_ATOMIC_L3, ROUTE_ATOMIC_L2, ROUTE_ATOMIC_L1, ROUTES
};
enum { ROUTE_BITS = 4 };
enum { RESOURCE_PORT, RESOURCE_L2, RESOURCE_LINK, RESOURCE_L3, RESOURCES };

int route_of(int from, int to, bool atomic);

typedef struct {
    uint64_t flows; /* their routes + 1, ROUTE_BITS each, the first one in the lowest */
    int32_t cluster, members;
    int32_t count, load[RESOURCES]; /* of flows; how often they use each */
    uint64_t mark;                  /* adds to the state's hash for each member */
    double port_share;              /* of the only flow, when the port is what holds it; */
    double link, l2, l3;            /* and what it then uses of the others */
    const double *rate;             /* by route, bytes a cycle (SHARES_SOLVED) */
} share_class;

typedef struct {
    uint64_t hash;
    int32_t count, capacity;
    int32_t *members; /* class, members; then class, members */
    double *rate;     /* [count][ROUTES] */
} share_solution;

enum { SHARES_ALL_ALIKE, SHARES_OF_PORTS, SHARES_SOLVED };
enum { KNOWN_CLASSES = 256 };

typedef struct {
    double port, l2, link, l3;
    int32_t clusters, sips;
    int kind;          /* SHARES_* */
    double all_alike;  /* each flow's rate (SHARES_ALL_ALIKE) */
    double *port_share; /* by SIP: each flow's rate (SHARES_OF_PORTS) */
    int32_t l3_load, *link_load, *l2_load; /* flows by what they use of each; the latter by cluster */
    int32_t off_l3, off_port;              /* flows that do not use it */
    int32_t several;                       /* SIPs with more than one flow */
    int32_t *class_of; /* by SIP */
    share_class *class;
    int32_t classes, capacity; /* the first `clusters` from 1 are those without flows; 0 is none */
    int32_t known[KNOWN_CLASSES]; /* the class last looked up with each mark, modulo */
    int32_t *active;           /* classes with flows and members */
    int32_t actives;
    uint64_t hash;
    share_solution *solution; /* by hash */
    int64_t solves;
    double *room; /* what solving works with */
    int32_t room_classes;
    bool failed; /* no memory */
} shares;

bool shares_init(shares *s, const timing_parameters *p);
void shares_clear(shares *s);
void shares_change(shares *s, int32_t sip, uint64_t flows); /* as in share_class */
void shares_solve(shares *s);

/* After shares_solve() gave SHARES_SOLVED. */
static inline double share_of(const shares *s, int32_t sip, int route) { return s->class[s->class_of[sip]].rate[route]; }

#endif
