"""Feed-forward and recurrent neural networks with a softmax over words."""
