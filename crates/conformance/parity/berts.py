"""Encoders that descend from BERT (RoBERTa, XLM-RoBERTa, DistilBERT, MPNet, ELECTRA, ALBERT), and the heads that they have:
masked tokens, classes, one value, labels of tokens, the ends of an answer, pretraining."""

import torch
import transformers

from record import IGNORED, Golden, agree, ids, pretrained_names, real_rows, right_mask, seeded, spread, traced, training

VOCABULARY = 37
LENGTHS = [11, 7, 4]
WIDTH = max(LENGTHS)

SIZES = dict(vocab_size=VOCABULARY, hidden_size=12, num_hidden_layers=2, num_attention_heads=2, intermediate_size=18,
             layer_norm_eps=1e-5, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, attn_implementation="eager")
FAMILIES = {
    "Bert": dict(SIZES, max_position_embeddings=13),
    # Padding is token 3 in one of them and token 1 in the other: positions begin at 4 and at 2.
    "Roberta": dict(SIZES, max_position_embeddings=17, type_vocab_size=1, pad_token_id=3, bos_token_id=0, eos_token_id=2),
    "XLMRoberta": dict(SIZES, max_position_embeddings=15, type_vocab_size=1, hidden_act="relu"),
    "DistilBert": dict(vocab_size=VOCABULARY, dim=12, n_layers=2, n_heads=2, hidden_dim=18, max_position_embeddings=13,
                       dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, qa_dropout=0.0,
                       attn_implementation="eager"),
    "MPNet": dict(SIZES, max_position_embeddings=15),
    "Electra": dict(SIZES, max_position_embeddings=13, embedding_size=7),
    # Three passes through one block, and the tanh form of GELU.
    "Albert": dict(SIZES, max_position_embeddings=13, embedding_size=7, num_hidden_layers=3),
}
PADDING = {"Roberta": 3, "XLMRoberta": 1, "MPNet": 1}
TYPED = {"Bert", "Electra", "Albert"}


def batches(family, seed):
    """One sentence of full length, and three padded ones. The padding token stands only there: it has no position of its
    own in some of these families, and PyTorch gives its embedding no gradient."""
    padding = PADDING.get(family, 0)
    one = {"input_ids": ids((1, 13), VOCABULARY, seed, padding + 1)}
    mask = right_mask(LENGTHS, WIDTH)
    tokens = ids((3, WIDTH), VOCABULARY, seed + 1, padding + 1)
    right = {"input_ids": tokens * mask + padding * (1 - mask), "attention_mask": mask}
    if family in TYPED:
        one["token_type_ids"] = (torch.arange(13) > 5).long()[None]
        types = torch.stack([(torch.arange(WIDTH) >= split).long() for split in (6, 3, 2)])
        right["token_type_ids"] = types * mask
    return one, right


def scores(outputs):
    """The scores of any head under the names that ours have."""
    if hasattr(outputs, "start_logits"):
        return {"start": outputs.start_logits, "end": outputs.end_logits}
    if hasattr(outputs, "prediction_logits"):
        follows = outputs.sop_logits if hasattr(outputs, "sop_logits") else outputs.seq_relationship_logits
        return {"logits": outputs.prediction_logits, "follows": follows}
    return {"logits": outputs.logits}


def kept_rows(value, mask):
    """Zeros at padding: of scores of positions, not of those of texts."""
    if mask is None or value.shape[:2] != mask.shape:
        return value
    return value * mask.to(value.dtype).reshape(*mask.shape, *[1] * (value.dim() - 2))


def blocks_of(model):
    """Its blocks; none where one block runs again and again, so that no stream is its own."""
    base = getattr(model, model.base_model_prefix)
    if hasattr(base.encoder if hasattr(base, "encoder") else base, "albert_layer_groups"):
        return []
    return base.transformer.layer if hasattr(base, "transformer") else base.encoder.layer


def study(golden, name, model, batch):
    outputs, streams = traced(model, batch, {"hidden": (blocks_of(model), None)})
    golden.put_all(name, batch)
    mask = batch.get("attention_mask")
    for kind, value in scores(outputs).items():
        golden.put(f"{name}.{kind}", kept_rows(value, mask))
    for stream, value in streams.items():
        golden.put(f"{name}.{stream}", real_rows(value, mask))
    return outputs


def padding_is_inert(model, right, outputs):
    for row, length in enumerate(LENGTHS):
        with torch.no_grad():
            alone = model(**{key: value[row:row + 1, :length] for key, value in right.items()})
        for kind, value in scores(outputs).items():
            own = value[row, :length] if value.shape[:2] == right["attention_mask"].shape else value[row]
            agree(f"padding, {kind}", own, scores(alone)[kind][0])


def case(family, head, seed, trained=None, **more):
    """A case: what the model says, and ten steps of training on `masked` tokens or `classes`."""
    architecture = getattr(transformers, family + head)
    config = getattr(transformers, family + "Config")(**{**FAMILIES[family], **more})

    def make(folder):
        def build():
            return architecture(config)
        model, golden = spread(build(), seed), Golden()
        model.save_pretrained(folder / "model")
        one, right = batches(family, seed + 1)
        study(golden, "one", model, one)
        padding_is_inert(model, right, study(golden, "right", model, right))
        mask = right["attention_mask"]
        if trained == "masked":
            asked = (torch.rand(mask.shape, generator=seeded(seed + 3)) < 0.4) & (mask == 1)
            labels = ids(mask.shape, VOCABULARY, seed + 4).masked_fill(~asked, IGNORED)
            training(golden, build, model, {**right, "labels": labels}, labels, mask, pretrained_names)
        elif trained == "classes":
            labels = torch.tensor([2, 0, 1])
            training(golden, build, model, {**right, "labels": labels}, labels, None, pretrained_names)
        golden.write(folder)
    return make


CASES = {
    "bert_pretraining": case("Bert", "ForPreTraining", 4200),
    "bert_labels": case("Bert", "ForTokenClassification", 4300, num_labels=5),
    "bert_span": case("Bert", "ForQuestionAnswering", 4400),
    "bert_value": case("Bert", "ForSequenceClassification", 4500, num_labels=1, problem_type="regression"),
    "roberta_masked": case("Roberta", "ForMaskedLM", 4600, "masked"),
    "roberta_classify": case("Roberta", "ForSequenceClassification", 4700, "classes", num_labels=3),
    "xlm_roberta_span": case("XLMRoberta", "ForQuestionAnswering", 4800),
    "distilbert_masked": case("DistilBert", "ForMaskedLM", 4900, "masked"),
    "distilbert_classify": case("DistilBert", "ForSequenceClassification", 5200, "classes", num_labels=3),
    "mpnet_masked": case("MPNet", "ForMaskedLM", 5300, "masked"),
    "mpnet_classify": case("MPNet", "ForSequenceClassification", 5400, num_labels=3),
    "electra_masked": case("Electra", "ForMaskedLM", 5500),
    "electra_replaced": case("Electra", "ForPreTraining", 5600),
    "electra_classify": case("Electra", "ForSequenceClassification", 5700, num_labels=3),
    "albert_masked": case("Albert", "ForMaskedLM", 5800, "masked"),
    "albert_pretraining": case("Albert", "ForPreTraining", 5900),
    "albert_classify": case("Albert", "ForSequenceClassification", 6000, num_labels=3),
}
