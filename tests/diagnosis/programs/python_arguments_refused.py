# expect: rank any, line 6, signature exit-after-words
import argparse

parser = argparse.ArgumentParser()
parser.add_argument("--epochs", type=int)
parser.parse_args(["--epoch-count", "3"])
