//! The cases of attention: its masks, biases, scale and kinds, and the mutant of each whose mask is off by
//! one.

use super::{OpCase, Sheet};
use regard::graph::{Result, Var};
use regard::ops::{Attention, AttentionBias, AttentionKind, AttentionMask, AttentionScale, Window};
use regard::prelude::*;

/// Where an attention of these cases differs from plain causal softmax attention.
type Settings = fn(&mut Sheet<'_>, &mut Attention) -> Result<()>;

/// B T S H G D E.
const ATTENTION: [usize; 7] = [2, 9, 12, 4, 2, 6, 5];

fn attention(s: &mut Sheet<'_>, settings: Settings) -> Result<Vec<Var>> {
    let [b, t, keys, h, g, d, e] = ATTENTION;
    let query = s.x("query", &[b, t, h, d])?;
    let (key, value) = (s.x("key", &[b, keys, g, d])?, s.x("value", &[b, keys, g, e])?);
    let mut spec = Attention::default();
    settings(s, &mut spec)?;
    Ok(vec![s.g.attention(query, key, value, &spec)?.y])
}

/// Keys up to the query's position, or one more.
fn causal(s: &Sheet<'_>) -> AttentionMask {
    match s.off {
        false => AttentionMask { causal: true, ..Default::default() },
        true => {
            let window = Some(Window { before: usize::MAX, after: 1 });
            AttentionMask { window, ..Default::default() }
        }
    }
}

/// A causal mask and a scale for each head.
fn scaled(s: &mut Sheet<'_>, spec: &mut Attention) -> Result<()> {
    spec.mask = causal(s);
    spec.scale = AttentionScale::Parameter(s.weight("scale", &[ATTENTION[3]])?);
    Ok(())
}

macro_rules! attentions {
    ($($what:literal $settings:expr;)*) => {
        [$(OpCase {
            folder: "attention", op: "attention", what: $what, masked: true,
            record: |s| attention(s, $settings),
        }),*]
    };
}

/// All kinds, masks and biases, each at least once.
pub const ATTENTIONS: [OpCase; 11] = attentions! {
    "causal, a scale for each head" scaled;
    "a window, alibi" |s, spec| {
        spec.mask.window = Some(Window { before: 2 + usize::from(s.off), after: 1 });
        spec.bias = AttentionBias::Alibi { slopes: s.weight("slopes", &[ATTENTION[3]])? };
        Ok(())
    };
    "lengths, buckets" |s, spec| {
        let lengths = [7.0, 10.0].map(|length| length + f64::from(u8::from(s.off)));
        spec.mask.key_lengths = Some(s.g.constant(DType::I32, [2], &lengths)?);
        let table = s.weight("table", &[8, ATTENTION[3]])?;
        spec.bias = AttentionBias::Buckets { table, bidirectional: true, max_distance: 6 };
        Ok(())
    };
    "a mask of keys, a table" |s, spec| {
        spec.mask.key_mask = Some(s.whole(DType::Bool, &[2, ATTENTION[2]], &[1.0, 1.0, 0.0, 1.0, 0.0])?);
        spec.bias = AttentionBias::Clipped { table: s.weight("table", &[5, ATTENTION[3]])? };
        Ok(())
    };
    "a mask of pairs, a bias" |s, spec| {
        let [b, t, keys, h, ..] = ATTENTION;
        spec.mask.explicit =
            Some(s.whole(DType::Bool, &[b, 1, t, keys], &[1.0, 0.0, 1.0, 1.0, 0.0, 1.0, 1.0])?);
        spec.bias = AttentionBias::Dense(s.weight("bias", &[1, h, t, keys])?);
        Ok(())
    };
    "dropout" |s, spec| {
        (spec.mask, spec.dropout) = (causal(s), 0.2);
        Ok(())
    };
    "soft cap" |s, spec| {
        spec.cap = Some(0.5);
        scaled(s, spec)
    };
    "hard" |s, spec| {
        spec.kind = AttentionKind::Hard;
        scaled(s, spec)
    };
    "straight-through" |s, spec| {
        spec.kind = AttentionKind::StraightThrough;
        scaled(s, spec)
    };
    "gumbel" |s, spec| {
        spec.kind = AttentionKind::Gumbel { temperature: 0.7, hard: false };
        scaled(s, spec)
    };
    "gumbel hard" |s, spec| {
        spec.kind = AttentionKind::Gumbel { temperature: 0.7, hard: true };
        scaled(s, spec)
    };
};
