//! What models read, in one vocabulary that every room shares. A model says which of these inputs it takes
//! ([`Reads`]); from that they are declared in a graph, made from a person's texts and fed to a program
//! without asking what the model is. Letters: B batch, T positions, S source positions, Ch channels, Hh and
//! Ww height and width.
//!
//! | input | shape | what it is |
//! |---|---|---|
//! | `ids` | i32 \[B T\] | the tokens of the one stream; what the decoder of an encoder-decoder has so far |
//! | `mask` | bool \[B T\] | true where there is a token, false for padding |
//! | `types` | i32 \[B T\] | the type of each token: first or second sentence |
//! | `position` | i32 \[B T\] | where each token stands, where that is not counted from the edge |
//! | `source` | i32 \[B S\] | what the encoder of an encoder-decoder reads |
//! | `source_mask` | bool \[B S\] | true where the source has a token |
//! | `pixels` | f32 \[B Ch Hh Ww\] | images, scaled and normed as in training |
//! | `labels` | i32 \[B T\] or \[B\] | what is to be learned; −100 does not count |

use regard_graph::{DType, Dim, Error, Graph, Result, Shape, Var};

/// The name of the input `ids`.
pub const IDS: &str = "ids";
/// The name of the input `mask`.
pub const MASK: &str = "mask";
/// The name of the input `types`.
pub const TYPES: &str = "types";
/// The name of the input `position`.
pub const POSITION: &str = "position";
/// The name of the input `source`.
pub const SOURCE: &str = "source";
/// The name of the input `source_mask`.
pub const SOURCE_MASK: &str = "source_mask";
/// The name of the input `pixels`.
pub const PIXELS: &str = "pixels";
/// The name of the input `labels`.
pub const LABELS: &str = "labels";

/// Which inputs a model takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// `ids`, with `mask`, `types` and `position` as they say.
    pub ids: Option<Tokens>,
    /// `source`, with `source_mask`.
    pub source: Option<Tokens>,
    /// `pixels`.
    pub pixels: Option<Pixels>,
}

/// A stream of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tokens {
    /// How many tokens there are.
    pub vocabulary: usize,
    /// The most positions; none if there may be any number.
    pub context: Option<usize>,
    /// How many types of tokens there are, where it is told them.
    pub types: Option<usize>,
    /// Whether padding is told by a mask. If not, no position sees a later one and padding stands on the
    /// right.
    pub masked: bool,
    /// Whether it can be told `position` and `mask`, so that padding may stand on the left.
    pub placed: bool,
    /// The token that stands for padding alone, where positions are counted over all others: no text may have
    /// it inside.
    pub filler: Option<usize>,
}

/// Images of one size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Ch.
    pub channels: usize,
    /// Hh.
    pub height: usize,
    /// Ww.
    pub width: usize,
}

/// The sizes of a pass; those of inputs that a model does not take mean nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// B.
    pub batch: usize,
    /// T.
    pub ids: usize,
    /// S.
    pub source: usize,
    /// Whether `types` are given; all are 0 if not.
    pub types: bool,
    /// Whether `position` is given, and `mask` with it.
    pub placed: bool,
}

/// The inputs of a pass in a graph.
#[derive(Clone, Copy, Debug, Default)]
pub struct Inputs {
    /// i32 `[B T]`.
    pub ids: Option<Var>,
    /// bool `[B T]`.
    pub mask: Option<Var>,
    /// i32 `[B T]`.
    pub types: Option<Var>,
    /// i32 `[B T]`.
    pub position: Option<Var>,
    /// i32 `[B S]`.
    pub source: Option<Var>,
    /// bool `[B S]`.
    pub source_mask: Option<Var>,
    /// f32 `[B Ch Hh Ww]`.
    pub pixels: Option<Var>,
}

impl Tokens {
    /// Tokens of which no position sees a later one, with no mask.
    pub fn causal(vocabulary: usize, context: Option<usize>) -> Tokens {
        Tokens { vocabulary, context, types: None, masked: false, placed: false, filler: None }
    }

    /// Tokens that all see each other; padding is told by a mask.
    pub fn masked(vocabulary: usize, context: Option<usize>) -> Tokens {
        Tokens { masked: true, ..Tokens::causal(vocabulary, context) }
    }
}

impl Reads {
    /// One stream of tokens.
    pub fn text(ids: Tokens) -> Reads {
        Reads { ids: Some(ids), ..Default::default() }
    }

    /// A source, and what is written after it.
    pub fn pair(source: Tokens, ids: Tokens) -> Reads {
        Reads { ids: Some(ids), source: Some(source), pixels: None }
    }

    /// Images.
    pub fn images(pixels: Pixels) -> Reads {
        Reads { pixels: Some(pixels), ..Default::default() }
    }

    /// The stream that a text to be read goes into, with its name: the source where there is one, or the ids.
    pub fn given(&self) -> Option<(&'static str, Tokens)> {
        self.source.map(|tokens| (SOURCE, tokens)).or(self.ids.map(|tokens| (IDS, tokens)))
    }

    /// The tokens that a text to be read is made of; none for a model of images.
    pub fn vocabulary(&self) -> Option<usize> {
        self.given().map(|(_, tokens)| tokens.vocabulary)
    }

    /// The most positions of a text; none for images, and where there is no end.
    pub fn context(&self) -> Option<usize> {
        self.given().and_then(|(_, tokens)| tokens.context)
    }

    /// Declares the inputs in a graph, at these sizes.
    pub fn declare(&self, g: &mut Graph, sizes: Sizes) -> Result<Inputs> {
        let Sizes { batch, ids, source, .. } = sizes;
        self.declare_as(g, sizes, [batch.into(), ids.into(), source.into()])
    }

    /// Declares them with open letters B, T and S, of which these sizes are the largest.
    pub fn declare_open(&self, g: &mut Graph, sizes: Sizes) -> Result<Inputs> {
        let batch = g.open('B', sizes.batch)?.into();
        let ids = match self.ids {
            Some(_) => g.open('T', sizes.ids)?.into(),
            None => 0.into(),
        };
        let source = match self.source {
            Some(_) => g.open('S', sizes.source)?.into(),
            None => 0.into(),
        };
        self.declare_as(g, sizes, [batch, ids, source])
    }

    fn declare_as(&self, g: &mut Graph, sizes: Sizes, [batch, ids, source]: [Dim; 3]) -> Result<Inputs> {
        let row = |g: &mut Graph, name: &str, dtype: DType, length: &Dim| {
            g.input(name, dtype, Shape::new(vec![batch.clone(), length.clone()])).map(Some)
        };
        let mut inputs = Inputs::default();
        if let Some(tokens) = self.source {
            inputs.source = row(g, SOURCE, DType::I32, &source)?;
            if tokens.masked {
                inputs.source_mask = row(g, SOURCE_MASK, DType::Bool, &source)?;
            }
        }
        if let Some(tokens) = self.ids {
            inputs.ids = row(g, IDS, DType::I32, &ids)?;
            if sizes.placed && !tokens.placed {
                return Err(Error::invalid(
                    "inputs",
                    "positions are given to a model that counts them from the edge",
                    "leave them out",
                ));
            }
            if tokens.masked || sizes.placed {
                inputs.mask = row(g, MASK, DType::Bool, &ids)?;
            }
            if sizes.types && tokens.types.is_some() {
                inputs.types = row(g, TYPES, DType::I32, &ids)?;
            }
            if sizes.placed {
                inputs.position = row(g, POSITION, DType::I32, &ids)?;
            }
        }
        if let Some(Pixels { channels, height, width }) = self.pixels {
            let shape = Shape::new(vec![batch, channels.into(), height.into(), width.into()]);
            inputs.pixels = Some(g.input(PIXELS, DType::F32, shape)?);
        }
        Ok(inputs)
    }
}

impl Inputs {
    /// `ids`, which a model of tokens cannot do without.
    pub fn ids(&self) -> Result<Var> {
        given(self.ids, IDS)
    }

    /// `source`, which an encoder-decoder cannot do without.
    pub fn source(&self) -> Result<Var> {
        given(self.source, SOURCE)
    }

    /// `pixels`, which a model of images cannot do without.
    pub fn pixels(&self) -> Result<Var> {
        given(self.pixels, PIXELS)
    }

    /// The examples of a pass: the first axis of whatever is given.
    pub fn batch(&self, g: &Graph) -> Result<Dim> {
        let first = given(self.ids.or(self.source).or(self.pixels), IDS)?;
        Ok(g.shape(first)[0].clone())
    }
}

/// Rows of one length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Padded<T> {
    /// All rows, one behind the other.
    pub values: Vec<T>,
    /// True where a value is a row's own.
    pub mask: Vec<bool>,
    /// How long each row is.
    pub width: usize,
}

/// Rows as long as the longest of them, and at least 1, with `filler` on the right of short ones.
///
/// ```
/// use regard_models::inputs::padded;
///
/// let rows = padded(&[vec![5, 6], vec![7]], 0);
/// assert_eq!((rows.values, rows.width), (vec![5, 6, 7, 0], 2));
/// assert_eq!(rows.mask, [true, true, true, false]);
/// ```
pub fn padded<T: Copy>(rows: &[impl AsRef<[T]>], filler: T) -> Padded<T> {
    let longest = rows.iter().map(|row| row.as_ref().len()).max().unwrap_or(0);
    padded_to(rows, filler, longest.max(1))
}

/// The same in rows of a given length, of which longer ones keep their beginning.
pub fn padded_to<T: Copy>(rows: &[impl AsRef<[T]>], filler: T, width: usize) -> Padded<T> {
    let mut values = Vec::with_capacity(rows.len() * width);
    let mut mask = Vec::with_capacity(rows.len() * width);
    for row in rows.iter().map(AsRef::as_ref) {
        let own = row.len().min(width);
        values.extend_from_slice(&row[..own]);
        values.extend(std::iter::repeat_n(filler, width - own));
        mask.extend((0..width).map(|at| at < own));
    }
    Padded { values, mask, width }
}

fn given(input: Option<Var>, name: &str) -> Result<Var> {
    input.ok_or_else(|| {
        let what = format!("the pass has no input `{name}`");
        Error::invalid("inputs", what, "declare the inputs that the model says it reads")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn declared(reads: Reads, sizes: Sizes) -> Vec<(String, String)> {
        let mut g = Graph::inference();
        reads.declare(&mut g, sizes).unwrap();
        g.inputs().map(|(name, var)| (name.to_string(), g.shape(var).to_string())).collect()
    }

    #[test]
    fn a_model_declares_what_it_reads_and_nothing_else() {
        let names = |all: Vec<(String, String)>| all.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let sizes = Sizes { batch: 2, ids: 3, source: 4, ..Default::default() };
        let decoder = Tokens { placed: true, ..Tokens::causal(5, Some(9)) };
        assert_eq!(names(declared(Reads::text(decoder), sizes)), ["ids"]);
        let placed = Sizes { placed: true, ..sizes };
        assert_eq!(names(declared(Reads::text(decoder), placed)), ["ids", "mask", "position"]);
        let encoder = Tokens { types: Some(2), ..Tokens::masked(5, Some(9)) };
        assert_eq!(names(declared(Reads::text(encoder), sizes)), ["ids", "mask"]);
        let typed = Sizes { types: true, ..sizes };
        assert_eq!(names(declared(Reads::text(encoder), typed)), ["ids", "mask", "types"]);
        let pair = Reads::pair(Tokens::masked(7, None), Tokens::causal(5, None));
        assert_eq!(names(declared(pair, sizes)), ["ids", "source", "source_mask"]);
        assert_eq!((pair.vocabulary(), pair.context()), (Some(7), None));
        let images = Reads::images(Pixels { channels: 3, height: 8, width: 6 });
        assert_eq!(declared(images, sizes), [("pixels".to_string(), "[2 3 8 6]".to_string())]);
        assert_eq!(images.vocabulary(), None);
    }

    #[test]
    fn rows_are_padded_on_the_right() {
        const ROWS: [&[i32]; 3] = [&[5, 6], &[], &[7, 8, 9]];
        let [t, f] = [true, false];
        let rows = padded(&ROWS, 1);
        assert_eq!((rows.values, rows.width), (vec![5, 6, 1, 1, 1, 1, 7, 8, 9], 3));
        assert_eq!(rows.mask, [t, t, f, f, f, f, t, t, t]);
        let rows = padded_to(&ROWS, 1, 2);
        assert_eq!((rows.values, rows.mask), (vec![5, 6, 1, 1, 7, 8], vec![t, t, f, f, t, t]));
        let none: [Vec<i32>; 0] = [];
        assert_eq!(padded(&none, 0), Padded { values: vec![], mask: vec![], width: 1 });
        assert_eq!(padded(&[Vec::<i32>::new()], -1), Padded { values: vec![-1], mask: vec![f], width: 1 });
        assert!(padded_to(&ROWS, 0, 0).values.is_empty());
    }

    #[test]
    fn what_is_not_there_is_named() {
        assert_eq!(
            Inputs::default().source().unwrap_err().to_string(),
            "inputs: the pass has no input `source`; declare the inputs that the model says it reads"
        );
        let mut g = Graph::inference();
        let sizes = Sizes { batch: 1, ids: 2, placed: true, ..Default::default() };
        let refused = Reads::text(Tokens::masked(5, None)).declare(&mut g, sizes).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "inputs: positions are given to a model that counts them from the edge; leave them out"
        );
    }
}
