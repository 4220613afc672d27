"""The table of what is said of names that ranks will not have."""

from __future__ import annotations

from nbdist.diagnosis.checks.finding import Rule

RULES = (
    Rule(
        name="name-imported",
        what="uses {name}, which {cell} imported: ranks are processes of their own and import for themselves",
        instead="write  {code}  into this cell",
        what_zh="用到 {name}，它是{cell_zh}导入的：各进程彼此独立，需要自己导入",
        instead_zh="在本单元里写  {code}",
    ),
    Rule(
        name="name-defined",
        what="uses {name}, a {type} that {cell} defined: ranks do not see what is in the kernel",
        instead="move its definition into this cell, or write it to a file with  %%writefile mine.py  and "
        "write  from mine import {name}",
        what_zh="用到 {name}，它由{cell_zh}定义（{type}）：各进程看不到内核里的东西",
        instead_zh="把定义移到本单元，或用  %%writefile mine.py  写成文件，再写  from mine import {name}",
    ),
    Rule(
        name="name-of-short-data",
        what="uses {name}, which {cell} assigned: ranks do not see the kernel's variables",
        instead="write  {code}  into this cell",
        what_zh="用到 {name}，它由{cell_zh}赋值：各进程看不到内核里的变量",
        instead_zh="在本单元里写  {code}",
    ),
    Rule(
        name="name-of-data",
        what="uses {name} ({type}), which {cell} made: ranks do not see the kernel's variables",
        instead="make it in this cell, or save it to a file there and load it here",
        what_zh="用到 {name}（{type}），它由{cell_zh}产生：各进程看不到内核里的变量",
        instead_zh="在本单元里生成它，或在那里存成文件、在这里读取",
    ),
    Rule(
        name="name-of-ranks",
        what="uses {name}, which only the ranks of {cell} had: those processes have ended",
        instead="define it in this cell, too; what is to last belongs into a file (torch.save, paddle.save)",
        what_zh="用到 {name}，只有{cell_zh}的各进程有过它：那些进程已经结束",
        instead_zh="在本单元里也定义它；要保留的东西存成文件（torch.save、paddle.save）",
    ),
    Rule(
        name="name-not-imported",
        what="uses {name}, which nobody defines",
        instead="write  {code}  into this cell",
        what_zh="用到 {name}，但没有定义它",
        instead_zh="在本单元里写  {code}",
    ),
    Rule(
        name="name-misspelt",
        what="uses {name}, which nobody defines",
        instead="did you mean  {near}?",
        what_zh="用到 {name}，但没有定义它",
        instead_zh="是不是  {near}？",
    ),
    Rule(
        name="name-unknown",
        what="uses {name}, which nobody defines",
        instead="define or import it above that line",
        what_zh="用到 {name}，但没有定义它",
        instead_zh="在那一行之前定义或导入它",
    ),
    Rule(
        name="name-too-early",
        what="uses {name} before line {line} defines it",
        instead="move line {line} above it",
        what_zh="用到 {name}，而第 {line} 行才定义它",
        instead_zh="把第 {line} 行移到它前面",
    ),
    Rule(
        name="name-deleted",
        what="uses {name}, which line {line} deleted",
        instead="leave out that  del",
        what_zh="用到 {name}，而第 {line} 行已经删除了它",
        instead_zh="去掉那个  del",
    ),
    Rule(
        name="name-display",
        what="uses display, which only a kernel has: nothing that a rank displays can reach the notebook",
        instead="print it, save figures with  savefig , or record numbers with  nbdist.log",
        what_zh="用到 display，只有内核才有：进程无法在笔记本里显示内容",
        instead_zh="用 print，图用  savefig  保存，数值用  nbdist.log  记录",
    ),
    Rule(
        name="name-of-the-kernel",
        what="uses {name}, which only a kernel has: ranks are plain Python processes",
        instead="leave it out",
        what_zh="用到 {name}，只有内核才有：运行的进程是普通的 Python 进程",
        instead_zh="去掉它",
    ),
)
