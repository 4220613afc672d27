# line: -n 2
# needs: lightning
# first: world 2, val_loss \d+\.\d+
"""Lightning's Trainer finds its ranks as under torchrun."""

import lightning
import torch
from torch.utils.data import DataLoader


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        loss = self.layer(batch).square().mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        self.log("val_loss", self.layer(batch).square().mean(), sync_dist=True)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


lightning.seed_everything(1, verbose=False)
trainer = lightning.Trainer(
    accelerator="cpu",
    devices=2,
    max_epochs=1,
    logger=False,
    enable_checkpointing=False,
    enable_progress_bar=False,
    enable_model_summary=False,
)
trainer.fit(Model(), DataLoader(torch.randn(64, 8), 8), DataLoader(torch.randn(32, 8), 8))
if trainer.is_global_zero:
    print(f"world {trainer.world_size}, val_loss {trainer.callback_metrics['val_loss'].item():.4f}")
