# expect: rank any
# cause: padding token|token to pad with
# fix: pad_token
"""huggingface/trl#466: a batch of texts, and a tokenizer that has no token to pad with."""

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import PreTrainedTokenizerFast

words = Tokenizer(WordLevel({"a": 0, "cup": 1, "<unk>": 2}, unk_token="<unk>"))
words.pre_tokenizer = Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=words, unk_token="<unk>")
tokenizer(["a cup", "a"], padding=True, return_tensors="pt")  # here
