"""A hidden Markov model as what it also is: a linear system with one-hot observations, all moments known."""

from dataclasses import dataclass

import torch
from torch import Tensor

from lmzoo.models.lds.estimation.fit import Fit
from lmzoo.models.lds.estimation.steady_state import steady_state
from lmzoo.models.lds.estimation.system import LDS


@dataclass(frozen=True)
class HMM:
    """K states, V words; p(z' | z) = T[z, z'], p(w | z) = E[z, w]."""

    T: Tensor
    E: Tensor

    @classmethod
    def draw(cls, states: int = 4, words: int = 20, stay: float = 0.6, turn: float = 0.3, seed: int = 0) -> "HMM":
        """A chain that stays, or turns to the next state, or jumps anywhere."""
        random = torch.Generator().manual_seed(seed)
        eye = torch.eye(states, dtype=torch.float64)
        jump = torch.rand(states, states, dtype=torch.float64, generator=random)
        T = stay * eye + turn * eye.roll(1, 1) + (1 - stay - turn) * jump / jump.sum(1, keepdim=True)
        E = torch.rand(states, words, dtype=torch.float64, generator=random) ** 4 + 0.02
        return cls(T, E / E.sum(1, keepdim=True))

    @property
    def pi(self) -> Tensor:
        """(K,) stationary distribution."""
        return torch.linalg.matrix_power(self.T, 2**12)[0]

    @property
    def mu(self) -> Tensor:
        """(V,) frequencies of the words."""
        return self.pi @ self.E

    @property
    def m(self) -> Tensor:
        return self.mu.sqrt()

    def psi(self, lags: int) -> list[Tensor]:
        """Ψ_1 … of an endless text, dense."""
        m, later = self.m, []
        for k in range(1, lags + 1):
            joint = self.E.mT @ torch.linalg.matrix_power(self.T, k).mT @ torch.diag(self.pi) @ self.E  # (V, V)
            later.append(joint / m[:, None] / m - torch.outer(m, m))
        return later

    def lds(self) -> LDS:
        """The linear system of the centred state indicator in a basis of 1^⊥, scaled by Q^{-½}, so that Q is I."""
        K = len(self.T)
        B = torch.linalg.svd(torch.ones(1, K, dtype=torch.float64))[2][1:].mT  # (K, K - 1)
        A, C = B.mT @ self.T.mT @ B, (self.E.mT @ B) / self.m[:, None]
        Pi = B.mT @ (torch.diag(self.pi) - torch.outer(self.pi, self.pi)) @ B
        variances, axes = torch.linalg.eigh(Pi - A @ Pi @ A.mT)  # of Q
        root, inverse = (axes @ torch.diag(variances**power) @ axes.mT for power in (0.5, -0.5))
        return LDS(inverse @ A @ root, C @ root, inverse @ Pi @ inverse)

    def sample(self, tokens: int, seed: int = 0) -> Tensor:
        """(N,) words of one long walk."""
        random = torch.Generator().manual_seed(seed)
        jump, word = torch.rand(2, tokens, dtype=torch.float64, generator=random)
        following = torch.searchsorted(self.T.cumsum(1).contiguous(), jump.expand(len(self.T), -1).contiguous())
        table = following.clamp(max=len(self.T) - 1).mT.tolist()  # [t][z], the state that z turns into at t
        states, z = [], 0
        for row in table:
            z = row[z]
            states.append(z)
        E = self.E.cumsum(1)[torch.tensor(states)]  # (N, V)
        return torch.searchsorted(E, word[:, None])[:, 0].clamp(max=self.E.shape[1] - 1)


def basis(m: Tensor) -> Tensor:
    """(V, V - 1) orthonormal basis of m^⊥."""
    return torch.linalg.svd(m[None])[2][1:].mT.contiguous()


def whitened(tokens: Tensor, mu: Tensor) -> Tensor:
    """(N, V) observations y_t."""
    m = mu.sqrt()
    return (torch.nn.functional.one_hot(tokens, len(mu)) - mu) / m


def gains(lds: LDS, mu: Tensor, Y: Tensor | None = None) -> Tensor:
    """(V, h) what each word adds to the filtered mean of a system."""
    return Fit(lds, steady_state(lds), None, mu, Y).gains()
