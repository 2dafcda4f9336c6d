"""Mathematics that several families use, each once. It knows no texts and no models."""
