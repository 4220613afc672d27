import comparison from './plugins/comparison';
import completion from './plugins/completion';
import dashboard from './plugins/dashboard';
import language from './plugins/language';
import lines from './plugins/lines';
import loading from './plugins/loading';
import notebook from './plugins/notebook';
import notices from './plugins/notices';
import restored from './plugins/restored';
import service from './plugins/service';
import sidebar from './plugins/sidebar';
import status from './plugins/status';

export default [
  service,
  sidebar,
  dashboard,
  comparison,
  status,
  notices,
  notebook,
  loading,
  restored,
  completion,
  lines,
  language,
];
