//! A small convolutional network, recorded with the ops of the library: pixels are rows, a convolution
//! gathers the neighbours of each and multiplies them with one matrix, so that its weights are the same
//! everywhere. Letters: B images, P pixels, C channels.

use regard::layers::{LinearConfig, LinearLayer, Parameters};
use regard::prelude::*;
use regard_graph::Result;

/// Pixels of a side before the first layer.
const SIDE: usize = 8;

/// Three convolutions of 3 by 3 with ReLU, the last two behind a halving of the image by the mean of 2 by 2,
/// then the mean over all pixels and a linear layer. Parameters: `conv.<n>`, `head`.
pub struct Cnn {
    parameters: Parameters,
    convolutions: Vec<LinearLayer>,
    head: LinearLayer,
}

impl Cnn {
    /// A network of this many channels inside.
    pub fn new(inputs: usize, width: usize, classes: usize) -> Result<Cnn> {
        let mut parameters = Parameters::new();
        let p = &mut parameters;
        let mut convolutions = Vec::new();
        for (layer, from) in [inputs, width, width].into_iter().enumerate() {
            let std = (2.0 / (9 * from) as f32).sqrt();
            let own = LinearConfig { inputs: 9 * from, outputs: width, bias: true, std };
            convolutions.push(p.under(format!("conv.{layer}"), |p| LinearLayer::new(own, p))?);
        }
        let std = 1.0 / (width as f32).sqrt();
        let head = LinearConfig { inputs: width, outputs: classes, bias: true, std };
        let head = p.under("head", |p| LinearLayer::new(head, p))?;
        Ok(Cnn { parameters, convolutions, head })
    }

    /// What it learns.
    pub fn parameters(&self) -> &Parameters {
        &self.parameters
    }

    /// Images B Ch 8 8 -> scores B V. The graph has inputs `neighbours.<side>` and `blocks.<side>`: see
    /// [`places`].
    pub fn logits(&self, g: &mut Graph, image: Var) -> Result<Var> {
        let rows = g.shape(image).bound()[0];
        let mut x = g.patches(image, [1, 1])?; // B Ch 8 8 -> B P Ch
        let mut side = SIDE;
        for (layer, convolution) in self.convolutions.iter().enumerate() {
            if layer > 0 {
                x = halved(g, x, rows, side)?;
                side /= 2;
            }
            x = around(g, x, rows, side)?; // B P C -> B P 9C
            x = convolution.forward(g, x)?;
            x = g.relu(x)?;
        }
        let width = g.shape(x).bound()[2];
        let x = mean_of(g, x, [rows, 1, side * side, width])?;
        let x = g.reshape(x, [rows, width])?;
        self.head.forward(g, x)
    }
}

/// The 3 by 3 neighbours of every pixel side by side, 0 beyond the border: B P C -> B P 9C
fn around(g: &mut Graph, x: Var, rows: usize, side: usize) -> Result<Var> {
    let width = g.shape(x).bound()[2];
    let places = g.input(&format!("neighbours.{side}"), DType::I32, [9 * side * side])?;
    let beyond = g.fill(DType::F32, [rows, 1, width], 0.0)?;
    let x = g.concat(&[x, beyond], 1)?;
    let x = g.gather(x, places, 1)?; // B 9P C
    g.reshape(x, [rows, side * side, 9 * width])
}

/// The mean of every 2 by 2: B P C -> B P/4 C
fn halved(g: &mut Graph, x: Var, rows: usize, side: usize) -> Result<Var> {
    let width = g.shape(x).bound()[2];
    let places = g.input(&format!("blocks.{side}"), DType::I32, [side * side])?;
    let x = g.gather(x, places, 1)?;
    let few = side * side / 4;
    let x = mean_of(g, x, [rows, few, 4, width])?;
    g.reshape(x, [rows, few, width])
}

/// The mean over the third of four axes.
fn mean_of(g: &mut Graph, x: Var, dims: [usize; 4]) -> Result<Var> {
    let [rows, many, each, width] = dims;
    let x = g.reshape(x, [rows, many, each, width])?;
    let like = g.fill(DType::F32, [rows, many, 1, width], 0.0)?;
    let sum = g.sum_to(x, like)?;
    g.scale(sum, 1.0 / each as f32)
}

/// Tells a program of [`Cnn::logits`] which pixel is whose neighbour.
pub fn places(program: &mut Program) -> regard::Result<()> {
    for side in [SIDE, SIDE / 2, SIDE / 4] {
        let all = (side * side) as i32;
        let mut neighbours = Vec::new();
        for at in 0..side * side {
            let (y, x) = ((at / side) as i32, (at % side) as i32);
            for (dy, dx) in (0..9).map(|n| (n / 3 - 1, n % 3 - 1)) {
                let (y, x) = (y + dy, x + dx);
                let inside = (0..side as i32).contains(&y) && (0..side as i32).contains(&x);
                neighbours.push(if inside { y * side as i32 + x } else { all });
            }
        }
        program.set_i32(&format!("neighbours.{side}"), &[9 * side * side], &neighbours)?;
        if side > SIDE / 4 {
            let half = side / 2;
            let blocks: Vec<i32> = (0..side * side)
                .map(|at| (at / 4, at % 4))
                .map(|(block, at)| ((block / half * 2 + at / 2) * side + block % half * 2 + at % 2) as i32)
                .collect();
            program.set_i32(&format!("blocks.{side}"), &[side * side], &blocks)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::one_cpu;

    #[test]
    fn inside_the_border_a_shift_of_the_image_is_a_shift_of_the_features() {
        let mut p = Parameters::new();
        let own = LinearConfig { inputs: 9, outputs: 3, bias: true, std: 0.5 };
        let convolution = LinearLayer::new(own, &mut p).unwrap();
        let features = |image: &[f32]| {
            let mut g = Graph::inference();
            let given = g.input("image", DType::F32, [1, 1, SIDE, SIDE]).unwrap();
            let x = g.patches(given, [1, 1]).unwrap();
            let x = around(&mut g, x, 1, SIDE).unwrap();
            let x = convolution.forward(&mut g, x).unwrap();
            g.output("x", x).unwrap();
            let mut store = Store::new(3);
            let mut program = Program::new(g, &[], &mut store, &one_cpu().unwrap()).unwrap();
            program.set_f32("image", &[1, 1, SIDE, SIDE], image).unwrap();
            let mut all = vec![];
            for at in 0..SIDE * SIDE {
                for (dy, dx) in (0..9).map(|n| (n / 3 - 1, n % 3 - 1)) {
                    let (y, x) = ((at / SIDE) as i32 + dy, (at % SIDE) as i32 + dx);
                    let inside = (0..8).contains(&y) && (0..8).contains(&x);
                    all.push(if inside { y * 8 + x } else { 64 });
                }
            }
            program.set_i32("neighbours.8", &[576], &all).unwrap();
            program.run(&mut store).unwrap();
            program.f32("x").unwrap().to_vec()
        };
        let mut image = vec![0.0; 64];
        image[3 * 8 + 2] = 1.0;
        image[4 * 8 + 3] = -2.0;
        let mut shifted = vec![0.0; 64];
        shifted[3 * 8 + 3] = 1.0;
        shifted[4 * 8 + 4] = -2.0;
        let (a, b) = (features(&image), features(&shifted));
        for at in (0..63).filter(|at| at % 8 < 7) {
            assert_eq!(a[at * 3..at * 3 + 3], b[at * 3 + 3..at * 3 + 6], "pixel {at}");
        }
    }
}
