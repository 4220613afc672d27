import completion from './plugins/completion';
import kernel from './plugins/kernel';
import lines from './plugins/lines';
import mainArea from './plugins/main_area';
import news from './plugins/news';
import notebook from './plugins/notebook';
import restored from './plugins/restored';
import service from './plugins/service';
import sidebar from './plugins/sidebar';

export default [service, sidebar, mainArea, ...news, notebook, kernel, restored, completion, lines];
