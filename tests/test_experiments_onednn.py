"""oneDNN's linear layer is torch's: values and gradients against float64, and everything else left as it was."""

import pytest
import torch
from torch import nn

from experiments import onednn

needs_onednn = pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="this PyTorch has no oneDNN")


@needs_onednn
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(256, 65, 48), (16640, 192)])
def test_values_and_gradients(shape: tuple[int, ...], bias: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "pays", lambda: True)
    plain = nn.Linear(shape[-1], 144, bias=bias)
    exact = nn.Linear(shape[-1], 144, bias=bias).double()
    exact.load_state_dict(plain.state_dict())
    layer = onednn.adopt(nn.Sequential(plain))[0]
    x = torch.randn(shape, requires_grad=True)
    wide = x.detach().double().requires_grad_()
    direction = torch.randn(*shape[:-1], 144)
    assert x.numel() * 144 >= onednn.LARGE
    out, expected = layer(x), exact(wide)
    out.backward(direction)
    expected.backward(direction.double())
    assert type(out.grad_fn).__name__ == "_ProductBackward"
    torch.testing.assert_close(out.double(), expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(x.grad.double(), wide.grad, atol=1e-5, rtol=1e-5)
    for ours, reference in zip(layer.parameters(), exact.parameters(), strict=True):
        torch.testing.assert_close(ours.grad.double(), reference.grad, atol=2e-3, rtol=1e-4)  # sums of 16,640 terms


@needs_onednn
def test_only_what_needs_a_gradient_gets_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "pays", lambda: True)
    layer = onednn.adopt(nn.Linear(48, 192))
    layer.weight.requires_grad_(False)
    x = torch.randn(2048, 48)
    layer(x).sum().backward()
    assert layer.weight.grad is None and layer.bias.grad.tolist() == [2048.0] * 192
    with torch.no_grad():
        assert layer(x).grad_fn is None


@pytest.mark.parametrize(("rows", "dtype"), [(2048, torch.float64), (4, torch.float32)], ids=["float64", "small"])
def test_elsewhere_it_is_torchs_own_to_the_bit(rows: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "pays", lambda: True)
    plain, x = nn.Linear(48, 192, dtype=dtype), torch.randn(rows, 48, dtype=dtype)
    expected = plain(x)
    assert torch.equal(onednn.adopt(plain)(x), expected)


def test_autocast_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "pays", lambda: True)
    layer, x = onednn.adopt(nn.Linear(48, 192)), torch.randn(2048, 48)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert layer(x).dtype == torch.bfloat16
    assert layer(x).dtype == torch.float32


def test_where_it_does_not_pay_nothing_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "pays", lambda: False)
    assert type(onednn.adopt(nn.Linear(2, 2))) is nn.Linear


def test_names_and_weights_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn, "pays", lambda: True)
    model = nn.Sequential(nn.Linear(3, 4), nn.Sequential(nn.Linear(4, 2, bias=False)))
    before = {name: (id(p), p.clone()) for name, p in model.named_parameters()}
    after = dict(onednn.adopt(model).named_parameters())
    assert {name: id(p) for name, p in after.items()} == {name: was for name, (was, _) in before.items()}
    assert all(torch.equal(after[name], value) for name, (_, value) in before.items())
