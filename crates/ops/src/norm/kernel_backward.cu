// The backward pass of the norms. A team has several rows one after the other, each in registers (PARTS parts of eight
// numbers to a thread), and keeps its sums of dscale and dshift there until they are done.
//
// G, H, S, Y and Z are the types of dy, of h, of the gradient of the stream, of dh and of its rounded copy in memory.

#include "row.cuh"

#define EACH(v) _Pragma("unroll") for (u32 v = 0; v < PARTS; v++)
#define FROM(v) ((v * TEAM + LANE) * 8)

typedef f32 Held[PARTS][8];

struct Operands {
    Y* dh;
    Z* rounded;
    f32* sums;  // [teams 2 pitch]: dscale and dshift of each team's rows
    const G* dy;
    const H* h;
    const f32* mean;
    const f32* rstd;
    const f32* scale;
    const S* stream;
};
struct Sizes {
    u32 rows, width, each, pitch, vectors;
};

KERNEL norm_backward(Operands o, Sizes n) {
    __shared__ f32 room[THREADS / 32];
    u32 team = MY_ROW, begin = team * n.each, end = min(begin + n.each, n.rows);
    if (begin >= n.rows) return;
    Held dscale, dshift;
    EACH(v) EIGHT(i) dscale[v][i] = dshift[v][i] = 0.0f;
    f32 width = f32(n.width);
    for (u32 row = begin; row < end; row++) {
        u64 start = u64(row) * n.width;
        Held d, normed;
        EACH(v) {
            load_part(o.dy + start, FROM(v), n.width, n.vectors, d[v]);
            load_part(o.h + start, FROM(v), n.width, n.vectors, normed[v]);
        }
        f32 rstd = o.rstd[row], mean = 0.0f, left = 0.0f;
        if (o.mean) {
            // It was rounded when it was saved.
            mean = o.mean[row];
            f32 sum = 0.0f;
            EACH(v) EIGHT(i) if (FROM(v) + i < n.width) sum += normed[v][i] - mean;
            left = reduce_row<Sum>(sum, room) / width;
        }
        f32 sum = 0.0f, across = 0.0f;
        EACH(v) {
            f32 scale[8];
            if (o.scale) load_part(o.scale, FROM(v), n.width, n.vectors, scale);
            EIGHT(i) {
                normed[v][i] = (normed[v][i] - mean - left) * rstd;
                dscale[v][i] += d[v][i] * normed[v][i];
                dshift[v][i] += d[v][i];
                if (o.scale) d[v][i] *= scale[i];
                // Beyond the end d is 0.
                sum += d[v][i], across += d[v][i] * normed[v][i];
            }
        }
        f32 common = o.mean ? reduce_row<Sum>(sum, room) / width : 0.0f;
        across = reduce_row<Sum>(across, room) / width;
        EACH(v) {
            f32 stream[8];
            if (o.stream) load_part(o.stream + start, FROM(v), n.width, n.vectors, stream);
            EIGHT(i) {
                d[v][i] = (d[v][i] - common - normed[v][i] * across) * rstd;
                if (o.stream) d[v][i] += stream[i];
            }
            if (o.dh) store_part(o.dh + start, FROM(v), n.width, n.vectors, d[v]);
            if (o.rounded) store_part(o.rounded + start, FROM(v), n.width, n.vectors, d[v]);
        }
    }
    if (!o.sums) return;
    f32* sums = o.sums + u64(team) * 2 * n.pitch;
    EACH(v) {
        store_part(sums, FROM(v), n.width, n.vectors, dscale[v]);
        store_part(sums + n.pitch, FROM(v), n.width, n.vectors, dshift[v]);
    }
}
