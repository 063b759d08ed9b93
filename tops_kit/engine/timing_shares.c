#include "timing_shares.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SOLUTIONS = 1024 };
static const double ALIKE = 1.0 + 1e-12; /* shares that differ by less are one */

static const uint8_t uses[ROUTES][RESOURCES] = {
    [ROUTE_L1_L3] = {1, 0, 1, 1},     [ROUTE_L1_L2] = {1, 1, 0, 0},     [ROUTE_L2_L3] = {0, 1, 1, 1},   [ROUTE_L1] = {1, 0, 0, 0},
    [ROUTE_L3_L3] = {0, 0, 2, 2},     [ROUTE_L2_L2] = {0, 2, 0, 0},     [ROUTE_FILL_L3] = {0, 0, 1, 1}, [ROUTE_FILL_L2] = {0, 1, 0, 0},
    [ROUTE_ATOMIC_L3] = {1, 0, 2, 2}, [ROUTE_ATOMIC_L2] = {1, 2, 0, 0}, [ROUTE_ATOMIC_L1] = {2, 0, 0, 0},
};

int route_of(int from, int to, bool atomic) {
    const int near = from < to ? from : to, far = from < to ? to : from; /* NONE < L1 < L2 < L3 */
    if (atomic) return far == SPACE_L3 ? ROUTE_ATOMIC_L3 : far == SPACE_L2 ? ROUTE_ATOMIC_L2 : ROUTE_ATOMIC_L1;
    if (far == SPACE_L3) return near == SPACE_L3 ? ROUTE_L3_L3 : near == SPACE_L2 ? ROUTE_L2_L3 : near == SPACE_L1 ? ROUTE_L1_L3 : ROUTE_FILL_L3;
    if (far == SPACE_L2) return near == SPACE_L2 ? ROUTE_L2_L2 : near == SPACE_L1 ? ROUTE_L1_L2 : ROUTE_FILL_L2;
    return ROUTE_L1;
}

static uint64_t mixed(uint64_t x) {
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static int route_at(uint64_t flows, int rank) { return (int)(flows >> (ROUTE_BITS * rank) & ((1 << ROUTE_BITS) - 1)) - 1; }

static uint64_t mark_of(int32_t cluster, uint64_t flows) { return flows ? mixed(flows + 0x9E3779B97F4A7C15u * (uint64_t)(cluster + 1)) : 0; }

static int32_t class_new(shares *s, int32_t cluster, uint64_t flows) {
    if (s->classes == s->capacity) {
        const int32_t capacity = 2 * s->capacity;
        share_class *const grown = realloc(s->class, (size_t)capacity * sizeof *grown);
        if (!grown) return 0;
        s->class = grown;
        s->capacity = capacity;
    }
    share_class c = {.flows = flows, .cluster = cluster, .mark = mark_of(cluster, flows), .port_share = HUGE_VAL};
    for (int route; (route = route_at(flows, c.count)) >= 0; c.count++) {
        for (int r = 0; r < RESOURCES; r++) c.load[r] += uses[route][r];
    }
    if (c.load[RESOURCE_PORT]) {
        c.port_share = s->port / c.load[RESOURCE_PORT];
        c.link = c.port_share * c.load[RESOURCE_LINK];
        c.l2 = c.port_share * c.load[RESOURCE_L2];
        c.l3 = c.port_share * c.load[RESOURCE_L3];
    }
    s->class[s->classes] = c;
    return s->classes++;
}

static int32_t class_with(shares *s, int32_t cluster, uint64_t flows) {
    if (!flows) return 1 + cluster;
    int32_t *const known = &s->known[mark_of(cluster, flows) % KNOWN_CLASSES];
    if (*known && s->class[*known].cluster == cluster && s->class[*known].flows == flows) return *known;
    for (int32_t k = 1; k < s->classes; k++) {
        if (s->class[k].cluster == cluster && s->class[k].flows == flows) return *known = k;
    }
    return *known = class_new(s, cluster, flows);
}

bool shares_init(shares *s, const timing_parameters *p) {
    *s = (shares){.port = p->port, .l2 = p->l2, .link = p->link, .l3 = p->l3, .clusters = (int32_t)p->clusters,
                  .sips = (int32_t)(p->clusters * p->sips_per_cluster), .classes = 1, .capacity = 16 + (int32_t)p->clusters};
    s->class = calloc((size_t)s->capacity, sizeof *s->class);
    s->class_of = calloc((size_t)s->sips, sizeof *s->class_of);
    s->active = calloc((size_t)s->sips, sizeof *s->active); /* no more classes have members than there are SIPs */
    s->port_share = calloc((size_t)s->sips, sizeof *s->port_share);
    s->link_load = calloc((size_t)s->clusters, sizeof *s->link_load);
    s->l2_load = calloc((size_t)s->clusters, sizeof *s->l2_load);
    if (!s->class || !s->class_of || !s->active || !s->port_share || !s->link_load || !s->l2_load) return false;
    for (int32_t k = 0; k < s->clusters; k++) class_new(s, k, 0);
    for (int32_t k = 0; k < s->sips; k++) s->class_of[k] = 1 + k / (int32_t)p->sips_per_cluster;
    return true;
}

void shares_clear(shares *s) {
    if (s->solution) {
        for (int32_t k = 0; k < SOLUTIONS; k++) {
            free(s->solution[k].members);
            free(s->solution[k].rate);
        }
    }
    free(s->solution);
    free(s->class);
    free(s->class_of);
    free(s->active);
    free(s->port_share);
    free(s->link_load);
    free(s->l2_load);
    free(s->room);
}

static int by_flows(const shares *s, int32_t a, int32_t b) {
    const share_class *const x = &s->class[a], *const y = &s->class[b];
    if (x->cluster != y->cluster) return x->cluster < y->cluster ? -1 : 1;
    return x->flows < y->flows ? -1 : x->flows > y->flows;
}

static void leave(shares *s, int32_t number) {
    share_class *const c = &s->class[number];
    s->hash -= c->mark;
    if (--c->members) return;
    int32_t k = 0;
    while (s->active[k] != number) k++;
    for (s->actives--; k < s->actives; k++) s->active[k] = s->active[k + 1];
}

/* Active classes stay in the order of cluster and flows: that of the sums when shares are worked out. */
static void enter(shares *s, int32_t number) {
    share_class *const c = &s->class[number];
    s->hash += c->mark;
    if (c->members++) return;
    int32_t k = s->actives++;
    for (; k > 0 && by_flows(s, number, s->active[k - 1]) < 0; k--) s->active[k] = s->active[k - 1];
    s->active[k] = number;
}

static void count(shares *s, const share_class *c, int by) {
    s->l3_load += by * c->load[RESOURCE_L3];
    s->link_load[c->cluster] += by * c->load[RESOURCE_LINK];
    s->l2_load[c->cluster] += by * c->load[RESOURCE_L2];
    s->off_l3 += by * !c->load[RESOURCE_L3];
    s->off_port += by * !c->load[RESOURCE_PORT];
    s->several += by * (c->count > 1);
}

void shares_change(shares *s, int32_t sip, uint64_t flows) {
    const int32_t old = s->class_of[sip], now = class_with(s, s->class[old].cluster, flows); /* may move the classes */
    if (!now) {
        s->failed = true;
        return;
    }
    if (s->class[old].flows) {
        count(s, &s->class[old], -1);
        leave(s, old);
    }
    if (flows) {
        count(s, &s->class[now], 1);
        enter(s, now);
    }
    s->class_of[sip] = now;
    s->port_share[sip] = s->class[now].port_share;
}

/* One kind of flow while shares are worked out: those of a class on one route. */
typedef struct {
    int32_t at, route, rank; /* rank: how many of the SIP's flows come before it */
    double members;
    bool fixed;
} share_kind;

typedef struct {
    double left, load;
    bool full;
} share_resource;

static void resources_of(const shares *s, const share_kind *k, share_resource *all, share_resource **each) {
    const int32_t cluster = s->class[s->active[k->at]].cluster;
    each[RESOURCE_PORT] = &all[k->at];
    each[RESOURCE_L2] = &all[s->actives + cluster];
    each[RESOURCE_LINK] = &all[s->actives + s->clusters + cluster];
    each[RESOURCE_L3] = &all[s->actives + 2 * s->clusters];
}

static double used(const share_kind *k, int r) { return uses[k->route][r] * (r == RESOURCE_PORT ? 1.0 : k->members); }

/* The rates of one rank rise together; a resource that is full stops the flows that use it, and the others rise on. */
static void rise(const shares *s, share_kind *kind, int32_t kinds, int32_t rank, share_resource *resource, double *rate) {
    const int32_t resources = s->actives + 2 * s->clusters + 1;
    share_resource *of[RESOURCES];
    int32_t left = 0;
    for (int32_t k = 0; k < resources; k++) resource[k].load = 0.0;
    for (share_kind *k = kind; k < kind + kinds; k++) {
        if (k->rank != rank) continue;
        resources_of(s, k, resource, of);
        for (int r = 0; r < RESOURCES; r++) of[r]->load += used(k, r);
        left++;
    }
    while (left > 0) {
        double level = 0.0;
        bool some = false;
        for (int32_t k = 0; k < resources; k++) {
            if (resource[k].load <= 0.0) continue;
            const double at = resource[k].left / resource[k].load;
            if (!some || at < level) level = at;
            some = true;
        }
        for (int32_t k = 0; k < resources; k++) resource[k].full = resource[k].load > 0.0 && resource[k].left / resource[k].load <= level * ALIKE;
        for (share_kind *k = kind; k < kind + kinds; k++) {
            bool full = false;
            if (k->rank != rank || k->fixed) continue;
            resources_of(s, k, resource, of);
            for (int r = 0; r < RESOURCES; r++) full = full || (uses[k->route][r] && of[r]->full);
            if (!full) continue;
            k->fixed = true;
            rate[k->at * ROUTES + k->route] = level;
            left--;
            for (int r = 0; r < RESOURCES; r++) {
                of[r]->load -= used(k, r);
                of[r]->left -= used(k, r) * level;
                if (of[r]->left < 0.0) of[r]->left = 0.0;
            }
        }
        for (int32_t k = 0; k < resources; k++) {
            if (resource[k].full) resource[k].left = 0.0; /* whatever roundings say: nothing for later ranks */
        }
    }
}

static void fill(const shares *s, share_kind *kind, int32_t kinds, int32_t ranks, share_resource *resource, double *rate) {
    const int32_t l2 = s->actives, link = l2 + s->clusters, l3 = link + s->clusters;
    for (int32_t k = 0; k <= l3; k++) resource[k].left = k < l2 ? s->port : k < link ? s->l2 : k < l3 ? s->link : s->l3;
    for (int32_t rank = 0; rank < ranks; rank++) rise(s, kind, kinds, rank, resource, rate);
}

static bool solution_room(share_solution *x, int32_t count) {
    if (x->capacity >= count) return true;
    const int32_t capacity = count + 4;
    int32_t *const members = realloc(x->members, (size_t)capacity * 2 * sizeof *members);
    if (members) x->members = members;
    double *const rate = realloc(x->rate, (size_t)capacity * ROUTES * sizeof *rate);
    if (rate) x->rate = rate;
    if (!members || !rate) return false;
    x->capacity = capacity;
    return true;
}

static bool solve(shares *s, share_solution *x) {
    if (!solution_room(x, s->actives)) return false;
    if (s->room_classes < s->actives) {
        free(s->room);
        s->room_classes = s->actives + 8;
        s->room = malloc((size_t)s->room_classes * ROUTES * sizeof(share_kind) + (size_t)(s->room_classes + 2 * s->clusters + 1) * sizeof(share_resource));
        if (!s->room) s->room_classes = 0;
        if (!s->room) return false;
    }
    share_kind *const kind = (share_kind *)s->room;
    share_resource *const resource = (share_resource *)(kind + s->room_classes * ROUTES);
    int32_t kinds = 0, ranks = 0;
    for (int32_t k = 0; k < s->actives; k++) {
        const share_class *const c = &s->class[s->active[k]];
        x->members[2 * k] = s->active[k];
        x->members[2 * k + 1] = c->members;
        for (int rank = 0; rank < c->count; rank++) kind[kinds++] = (share_kind){k, route_at(c->flows, rank), rank, c->members, false};
        if (c->count > ranks) ranks = c->count;
    }
    x->count = s->actives;
    x->hash = s->hash;
    fill(s, kind, kinds, ranks, resource, x->rate);
    return true;
}

static bool fits(const shares *s, const share_solution *x) {
    if (x->hash != s->hash || x->count != s->actives) return false;
    for (int32_t k = 0; k < x->count; k++) {
        if (s->class[x->members[2 * k]].members != x->members[2 * k + 1]) return false;
    }
    return true;
}

/* L3 is the first to be full when rates rise, and all flows use it. */
static bool all_alike(shares *s) {
    if (s->off_l3) return false;
    const double level = s->l3 / s->l3_load;
    for (int32_t k = 0; k < s->clusters; k++) {
        if (s->link_load[k] && s->link / s->link_load[k] < level) return false;
        if (s->l2_load[k] && s->l2 / s->l2_load[k] < level) return false;
    }
    for (int32_t k = 0; k < s->actives; k++) {
        if (s->class[s->active[k]].port_share < level) return false;
    }
    s->all_alike = level;
    return true;
}

/* All flows use ports, and with all that their ports can give them nothing else is full: by a margin that makes roundings
   the same as those of fill(). */
static bool of_ports(const shares *s) {
    static const double MARGIN = 1.0 - 1e-9;
    if (s->off_port) return false;
    double l3 = 0.0;
    for (int32_t k = 0; k < s->actives;) {
        const int32_t cluster = s->class[s->active[k]].cluster;
        double link = 0.0, l2 = 0.0;
        for (; k < s->actives && s->class[s->active[k]].cluster == cluster; k++) {
            const share_class *const c = &s->class[s->active[k]];
            link += c->link * c->members;
            l2 += c->l2 * c->members;
            l3 += c->l3 * c->members;
        }
        if (link > s->link * MARGIN || l2 > s->l2 * MARGIN) return false;
    }
    return l3 <= s->l3 * MARGIN;
}

void shares_solve(shares *s) {
    if (!s->actives) return;
    s->solves++;
    s->kind = s->several ? SHARES_SOLVED : all_alike(s) ? SHARES_ALL_ALIKE : of_ports(s) ? SHARES_OF_PORTS : SHARES_SOLVED;
    if (s->kind != SHARES_SOLVED) return;
    if (!s->solution) s->solution = calloc(SOLUTIONS, sizeof *s->solution);
    share_solution *const x = s->solution ? &s->solution[mixed(s->hash) % SOLUTIONS] : NULL;
    if (!x || (!fits(s, x) && !solve(s, x))) {
        s->failed = true;
        return;
    }
    for (int32_t k = 0; k < x->count; k++) s->class[x->members[2 * k]].rate = x->rate + (ptrdiff_t)k * ROUTES;
}
