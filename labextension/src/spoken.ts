/**
 * How ranks exited, in Chinese. The kernel's side says it in English, in one of the forms of
 * nbdist/diagnosis/exits.py; tests/fixtures/exits.json holds samples that the tests of both sides read.
 */
const MEANINGS: Readonly<Record<string, string>> = {
  'killed from outside, often by the out-of-memory killer': '被外部强制结束,常因内存不足',
  'killed for want of memory': '系统内存不足,被强制结束',
  'invalid memory access in native code': '原生代码访问了无效内存',
  'native code gave up': '原生代码中止',
  'bad memory access, often a full /dev/shm': '内存访问错误,常因 /dev/shm 已满',
  'arithmetic error in native code': '原生代码算术错误',
  'an instruction that this CPU does not have': '本机 CPU 没有的指令',
  'told to end from outside': '被外部要求结束',
  interrupted: '被中断',
};

/** What is not known stays as it is. */
export function exitInChinese(exit: string): string {
  const code = /^exit (\d+)$/.exec(exit);
  if (code) {
    return `退出码 ${code[1]}`;
  }
  const ended = /^ended by nbdist \((\w+)\)$/.exec(exit);
  if (ended) {
    return `由 nbdist 结束(${ended[1]})`;
  }
  const [, name, said, reached] = /^(\w+) \((.*?)(?:; it had reached (.*))?\)$/.exec(exit) ?? [];
  const meaning = MEANINGS[said ?? ''];
  return meaning ? `${name}(${meaning}${reached ? `,当时已用 ${reached}` : ''})` : exit;
}
