// The gradients of the scores of a tile in true f32, from which those of queries, keys and biases are made.

#include "rows.cuh"

// The score gradients of a tile, times nothing else; 0 where a pair is not allowed. `dot` keeps q·k, and `weights` the
// weights before dropout where they are asked for.
DEVICE void score_gradients(Micro& gradients, Micro& dot, const Operands& o, const Sizes& n, const Factors& x,
                            const Streams& streams, const Place& p, f32 beta, const Q* dy, const f32 (&lse)[4],
                            const f32 (&terms)[4], f32 (*left)[PITCH], f32 (*right)[PITCH], Micro* weights = nullptr) {
    dots(dot, o, n, p, left, right);
    if (KIND == KIND_HARD) clear(gradients);
    else value_dots(gradients, o, n, p, dy, left, right);
    u32 kept = KIND == KIND_HARD ? 0 : kept_of_tile(o, n, streams, p);
    EACH(i, j) {
        if (!p.allowed[i][j]) {
            gradients[i][j] = 0.0f;
            if (weights) (*weights)[i][j] = 0.0f;
            continue;
        }
        f32 weight = expf(final_score(o, n, x, streams, p, beta, dot[i][j], i, j) - lse[i]);
        if (weights) (*weights)[i][j] = weight;
        f32 gradient = gradients[i][j];
        if (KIND != KIND_HARD) gradient = grown(x, kept, i, j, gradient);
        gradient = weight * (gradient - terms[i]);
        gradients[i][j] = NOISY ? gradient / x.temperature : gradient;
    }
}
DEVICE void load_rows(f32 (&to)[4], const f32* from, const Sizes& n, const Place& p) {
#pragma unroll
    for (u32 i = 0; i < 4; i++) to[i] = p.first_query + 4 * MY_Y + i < n.t ? from[row_index(n, p, i)] : 0.0f;
}
