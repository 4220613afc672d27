import torch

model = torch.nn.Linear(8, 2)
# a GPU's tensor where there is a GPU; "meta" has no data, and is another device than the CPU's everywhere
images = torch.randn(4, 8, device="cuda" if torch.cuda.is_available() else "meta")
print(model(images))
