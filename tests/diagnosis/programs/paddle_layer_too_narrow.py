# expect: rank any, line 5, signature paddle-matmul-shapes
import paddle

layer = paddle.nn.Linear(400, 10)
layer(paddle.randn([4, 784]))
