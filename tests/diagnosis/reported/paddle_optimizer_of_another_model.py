# expect: rank any
# cause: state.dict|other parameters|another model
# fix: same model|leave|set_state_dict|names
"""PaddlePaddle/Paddle#61449: training resumes with the optimizer's state of a model that was made before."""

import paddle


def make():
    model = paddle.nn.Linear(4, 2)
    return model, paddle.optimizer.Adam(parameters=model.parameters())


model, optimizer = make()
model(paddle.ones([1, 4])).sum().backward()
optimizer.step()
again, resumed = make()
resumed.set_state_dict(optimizer.state_dict())
again(paddle.ones([1, 4])).sum().backward()
resumed.step()  # here
