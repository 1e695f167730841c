//! The outer rings of the tests: agreement of the engines, parity with PyTorch, journeys of whole commands.
