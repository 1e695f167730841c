//! Gradients against central differences, both in f64.

use super::{Case, Recorded, cotangent_name, fail};
use crate::reference::{Mode, run};
use crate::{Feed, Result};
use regard_device::Stream;

/// How many elements of each value are moved, at most.
const SAMPLES: usize = 24;

impl Case<'_> {
    /// Compares every gradient with central differences in f64.
    pub fn gradients(&self) -> Result<()> {
        let Recorded { graph, gradients, feed, .. } = self.backward()?;
        if gradients.is_empty() {
            return Err(fail("gradients", "nothing in the case can be differentiated".into()));
        }
        let exact = run(&graph, &feed, Mode::Exact)?;
        for (name, _, grad) in &gradients {
            let grad = exact.value(*grad);
            let largest = grad.data().iter().fold(0.0, |most: f64, x| most.max(x.abs()));
            for element in self.samples(name, grad.data().len()) {
                let got = grad.data()[element];
                let want = self.difference(&feed, name, element)?;
                // Rounding of the two sums over a step of 1e-5 leaves about 1e-9 of the terms' size.
                let error = (got - want).abs();
                if error.is_nan() || error > 2e-7 * (1.0 + largest) {
                    let what = format!("d/d{name}[{element}] is {got}, central differences give {want}");
                    return Err(fail("gradients", what));
                }
            }
        }
        Ok(())
    }

    fn samples(&self, name: &str, count: usize) -> Vec<usize> {
        if count <= SAMPLES {
            return (0..count).collect();
        }
        let stream = Stream::new(self.seed, 1, name);
        (0..SAMPLES).map(|i| stream.bits(0, 0, i as u32) as usize % count).collect()
    }

    /// (L(x + h) − L(x − h)) / 2h for one element.
    fn difference(&self, feed: &Feed, name: &str, element: usize) -> Result<f64> {
        let mut feed = feed.clone();
        let x = value_of(&mut feed, name, element).map_or(0.0, |x| *x);
        let h = 1e-5 * (1.0 + x.abs());
        let mut loss_at = |moved: f64| -> Result<f64> {
            if let Some(slot) = value_of(&mut feed, name, element) {
                *slot = moved;
            }
            self.loss(&feed)
        };
        let (above, below) = (loss_at(x + h)?, loss_at(x - h)?);
        Ok((above - below) / ((x + h) - (x - h)))
    }

    /// Σ cotangent · output, computed from the forward graph alone.
    fn loss(&self, feed: &Feed) -> Result<f64> {
        let Recorded { graph, outputs, .. } = self.forward()?;
        let exact = run(&graph, feed, Mode::Exact)?;
        let mut loss = 0.0;
        for (index, &output) in outputs.iter().enumerate() {
            let Some(cotangent) = feed.inputs.get(&cotangent_name(index)) else { continue };
            let values = exact.value(output);
            loss += values.data().iter().zip(cotangent.data()).map(|(y, c)| y * c).sum::<f64>();
        }
        Ok(loss)
    }
}

fn value_of<'a>(feed: &'a mut Feed, name: &str, element: usize) -> Option<&'a mut f64> {
    let array = match feed.inputs.get_mut(name) {
        Some(array) => Some(array),
        None => feed.stored.get_mut(name),
    };
    array.map(|array| &mut array.data_mut()[element])
}
