// llama.cpp as a peer of bench/decode_llamacpp: asked line by line, as crates/runtime/examples/decode_speed.rs is.
//
//   llamacpp_peer serve MODEL THREADS          lines `prefill TOKENS` or `decode ROWS TOKENS` on stdin, tokens a second on stdout
//   llamacpp_peer start MODEL THREADS TEXT N   N greedy tokens after a text, then the end: for whole processes
//   llamacpp_peer quantise FROM TO FTYPE       another precision of the same weights, by the numbers of llama_ftype
//
// Threads, flash attention and the sizes of batches are llama.cpp's defaults for this use, but that a prompt is one batch.
#include "llama.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

static const int PROMPT = 16;

static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

static void silent(enum ggml_log_level, const char *, void *) {}

static llama_context * context(llama_model * model, int threads, int rows, int positions) {
    llama_context_params p = llama_context_default_params();
    p.n_ctx = (uint32_t) (rows * positions);
    p.n_batch = p.n_ubatch = (uint32_t) std::max(rows * PROMPT, positions);
    p.n_seq_max = (uint32_t) rows;
    p.n_threads = p.n_threads_batch = threads;
    return llama_init_from_model(model, p);
}

static int likeliest(llama_context * c, int at, int vocabulary) {
    const float * scores = llama_get_logits_ith(c, at);
    int best = 0;
    for (int i = 1; i < vocabulary; i++) best = scores[i] > scores[best] ? i : best;
    return best;
}

static void put(llama_batch & b, int token, int position, int row, bool scores) {
    int at = b.n_tokens++;
    b.token[at] = token;
    b.pos[at] = position;
    b.n_seq_id[at] = 1;
    b.seq_id[at][0] = row;
    b.logits[at] = scores;
}

// Prompts for all rows, then `most - 1` further tokens; the times of the beginning and of the first and last token.
static void write_rows(llama_context * c, int vocabulary, int rows, int prompt, int most, double times[3]) {
    llama_memory_clear(llama_get_memory(c), true);
    llama_batch b = llama_batch_init(rows * prompt, 0, 1);
    times[0] = now();
    for (int r = 0; r < rows; r++)
        for (int i = 0; i < prompt; i++) put(b, (i * 37 + r * 101) % 997 + 3, i, r, i == prompt - 1);
    if (llama_decode(c, b)) exit(1);
    std::vector<int> newest(rows);
    for (int r = 0; r < rows; r++) newest[r] = likeliest(c, r * prompt + prompt - 1, vocabulary);
    times[1] = now();
    for (int step = 1; step < most; step++) {
        b.n_tokens = 0;
        for (int r = 0; r < rows; r++) put(b, newest[r], prompt + step - 1, r, true);
        if (llama_decode(c, b)) exit(1);
        for (int r = 0; r < rows; r++) newest[r] = likeliest(c, r, vocabulary);
    }
    times[2] = now();
    llama_batch_free(b);
}

int main(int count, char ** words) {
    if (count < 4) return fprintf(stderr, "see the head of the source\n"), 2;
    llama_log_set(silent, nullptr);
    ggml_backend_load_all();
    if (!strcmp(words[1], "quantise")) {
        llama_model_quantize_params p = llama_model_quantize_default_params();
        p.ftype = (enum llama_ftype) atoi(words[4]);
        p.allow_requantize = true;
        return (int) llama_model_quantize(words[2], words[3], &p);
    }
    llama_model * model = llama_model_load_from_file(words[2], llama_model_default_params());
    if (!model) return 1;
    const llama_vocab * vocab = llama_model_get_vocab(model);
    int threads = atoi(words[3]), vocabulary = llama_vocab_n_tokens(vocab);
    if (!strcmp(words[1], "start")) {
        std::vector<llama_token> ids(4096);
        int n = llama_tokenize(vocab, words[4], (int) strlen(words[4]), ids.data(), 4096, false, false), most = atoi(words[5]);
        llama_context * c = context(model, threads, 1, n + most);
        llama_batch b = llama_batch_get_one(ids.data(), n);
        for (int i = 0; i < most; i++) {
            if (llama_decode(c, b)) return 1;
            ids[0] = likeliest(c, -1, vocabulary);
            char piece[64];
            int bytes = llama_token_to_piece(vocab, ids[0], piece, 64, 0, false);
            fwrite(piece, 1, (size_t) bytes, stdout);
            b = llama_batch_get_one(ids.data(), 1);
        }
        printf("\n");
        fflush(stdout);
        _Exit(0);
    }
    char line[256];
    while (fgets(line, sizeof line, stdin)) {
        int rows = 1, prompt = PROMPT, tokens = 0, most = 1;
        bool prefill = sscanf(line, "prefill %d", &tokens) == 1;
        if (prefill) prompt = tokens;
        else if (sscanf(line, "decode %d %d", &rows, &tokens) == 2) most = tokens + 1;
        else return fprintf(stderr, "not known: %s", line), 2;
        llama_context * c = context(model, threads, rows, prompt + most + 8);
        if (!c) return 1;
        double times[3];
        write_rows(c, vocabulary, rows, prompt, 2, times);
        write_rows(c, vocabulary, rows, prompt, most, times);
        printf("%.2f\n", prefill ? prompt / (times[1] - times[0]) : rows * (most - 1) / (times[2] - times[1]));
        fflush(stdout);
        llama_free(c);
    }
    return 0;
}
