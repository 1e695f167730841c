"""Descendants of the 2017 Transformer as transformers has them: BART (post-norm, learned positions), mBART (pre-norm, a norm
after each stack) and Marian (sinusoids in halves, one vocabulary or two).
"""

import torch
from transformers import (BartConfig, BartForConditionalGeneration, GenerationConfig, MarianConfig, MarianMTModel,
                          MBartConfig, MBartForConditionalGeneration)
from transformers.modeling_outputs import BaseModelOutput

from record import (GREEDY_TOKENS, IGNORED, Golden, agree, chosen, ids, pretrained_names, right_mask, seeded, spread,
                    study, training, write_json)
from seq2seq import LENGTHS, TARGET_LENGTHS

MOST = 9
SIZES = dict(d_model=12, encoder_layers=2, decoder_layers=1, encoder_attention_heads=3, decoder_attention_heads=2,
             encoder_ffn_dim=22, decoder_ffn_dim=26, max_position_embeddings=21, dropout=0.0, attn_implementation="eager")


def bart_model():
    return BartForConditionalGeneration(BartConfig(vocab_size=37, scale_embedding=False, **{**SIZES, "encoder_layers": 1}))


def mbart_model():
    return MBartForConditionalGeneration(MBartConfig(vocab_size=47, scale_embedding=True, activation_function="relu",
                                                     decoder_start_token_id=5, **SIZES))


def marian_model(**vocabularies):
    last = vocabularies.get("decoder_vocab_size", vocabularies["vocab_size"]) - 1
    return MarianMTModel(MarianConfig(scale_embedding=True, activation_function="swish", pad_token_id=last,
                                      decoder_start_token_id=last, **vocabularies, **SIZES))


@torch.no_grad()
def drawn(model, seed):
    """Random weights, and a bias of scores that is not zero; Marian's sinusoids stay."""
    spread(model, seed)
    model.final_logits_bias.copy_(0.3 * torch.randn(model.final_logits_bias.shape, generator=seeded(seed + 9)))
    for stack in (model.model.encoder, model.model.decoder):
        if hasattr(stack.embed_positions, "create_weight"):
            stack.embed_positions.weight.copy_(stack.embed_positions.create_weight())
    return model


@torch.no_grad()
def greedy(golden, model, source, start):
    """Six tokens with a cache for three padded sources, each step checked against a forward pass without one."""
    golden.put_all("greedy_right", source)
    memory = BaseModelOutput(last_hidden_state=model.model.encoder(**source).last_hidden_state)
    whole = step = torch.full((len(LENGTHS), 1), start)
    cache, logits = None, []
    for _ in range(GREEDY_TOKENS):
        output = model(encoder_outputs=memory, attention_mask=source["attention_mask"], decoder_input_ids=step,
                       past_key_values=cache, use_cache=True)
        full = model(**source, decoder_input_ids=whole).logits[:, -1]
        agree("cached decoding", output.logits[:, -1], full)
        cache, step = output.past_key_values, chosen(full)[:, None]
        logits.append(output.logits[:, -1])
        whole = torch.cat([whole, step], 1)
    golden.put("greedy_right.tokens", whole[:, 1:])
    golden.put("greedy_right.logits", torch.stack(logits, 1))


@torch.no_grad()
def written(model, source, start, obeyed):
    """What `generate` writes under rules, greedily and by a search: everything that a generation_config.json says is
    obeyed. Ends with the first stop token, which is left out."""
    cases = []
    for rules in obeyed:
        model.generation_config = GenerationConfig(decoder_start_token_id=start, pad_token_id=model.config.pad_token_id,
                                                   **rules)
        rows = []
        for row, length in enumerate(LENGTHS):
            alone = {name: value[row:row + 1, :length] for name, value in source.items()}
            found = {}
            for width in (1, 3):
                answer = model.generate(**alone, num_beams=width, max_new_tokens=MOST, do_sample=False)[0, 1:].tolist()
                end = rules.get("eos_token_id")
                found[str(width)] = answer[:answer.index(end)] if end in answer else answer
            rows.append({"source": alone["input_ids"][0].tolist(), **found})
        cases.append({"rules": rules, "start": start, "most": MOST, "rows": rows})
    return cases


def case(folder, build, seed, start, obeyed, trains=True, target_vocabulary=None):
    model, golden = drawn(build(), seed), Golden()
    model.save_pretrained(folder / "model")
    vocabulary, pad = model.config.vocab_size, model.config.pad_token_id
    writes = target_vocabulary or vocabulary
    inner = model.model
    stacks = {"encoder": (inner.encoder.layers, getattr(inner.encoder, "layer_norm", None)),
              "decoder": (inner.decoder.layers, getattr(inner.decoder, "layer_norm", None))}

    study(golden, "one", model, {"input_ids": ids((1, 19), vocabulary - 1, seed + 1, first=3),
                                 "decoder_input_ids": ids((1, 16), writes - 1, seed + 2, first=3)}, stacks)
    mask = right_mask(LENGTHS, 17)
    source = {"input_ids": ids((3, 17), vocabulary - 1, seed + 3, first=3).masked_fill(mask == 0, min(pad, vocabulary - 1)),
              "attention_mask": mask}
    labels = ids((3, 13), writes - 1, seed + 4, first=3).masked_fill(right_mask(TARGET_LENGTHS, 13) == 0, IGNORED)
    # The labels behind the start token, those that are ignored as padding: at the end, where nobody sees it.
    target = torch.cat([torch.full((3, 1), start), labels[:, :-1]], 1)
    target = target.masked_fill(target == IGNORED, pad)
    right = {**source, "decoder_input_ids": target}
    logits = study(golden, "right", model, right, stacks, None, {"encoder": mask}).logits
    for row, length in enumerate(LENGTHS):
        with torch.no_grad():
            alone = model(input_ids=source["input_ids"][row:row + 1, :length],
                          decoder_input_ids=target[row:row + 1]).logits[0]
        agree("source padding", logits[row], alone)
    greedy(golden, model, source, start)
    if trains:
        training(golden, build, model, {**right, "labels": labels}, labels, None, trained_names)
    golden.write(folder)
    write_json(folder / "written.json", written(model, source, start, obeyed))


def trained_names(model, table):
    """As written, but for what no gradient reaches: the bias of scores is no parameter."""
    return {name: value for name, value in pretrained_names(model, table).items() if name != "final_logits_bias"}


def bart(folder):
    case(folder, bart_model, 8100, 2, [
        {"eos_token_id": 12, "min_length": 4},
        {"eos_token_id": 2, "forced_bos_token_id": 0, "forced_eos_token_id": 2},
        {"eos_token_id": 2, "forced_bos_token_id": 0, "no_repeat_ngram_size": 2, "min_length": 6, "length_penalty": 2.0,
         "forced_eos_token_id": 2},
    ])


def mbart(folder):
    case(folder, mbart_model, 8200, 5, [
        {"eos_token_id": 2, "forced_bos_token_id": 9},
    ], trains=False)


def marian(folder):
    case(folder, lambda: marian_model(vocab_size=41), 8300, 40, [
        {"eos_token_id": 0, "bad_words_ids": [[40], [28]], "forced_eos_token_id": 0},
    ], trains=False)


def marian_separate(folder):
    case(folder, lambda: marian_model(vocab_size=41, decoder_vocab_size=33, share_encoder_decoder_embeddings=False),
         8400, 32, [{"eos_token_id": 0, "bad_words_ids": [[32], [7, 8]], "forced_eos_token_id": 0}], trains=False,
         target_vocabulary=33)
