/** Provides the list of runs and the stream, and keeps them asleep while the page is hidden. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ServerConnection } from '@jupyterlab/services';
import { ITranslator } from '@jupyterlab/translation';

import { isChinese } from '../../words/languages';
import { Client, type Server } from '../services/client';
import { Runs } from '../services/runs';
import { Stream } from '../services/stream';
import { IRunService, whenIdle } from '../tokens';

const plugin: JupyterFrontEndPlugin<IRunService> = {
  id: 'nbdist:service',
  description: 'The runs of this user as the Jupyter server tells them.',
  autoStart: true,
  provides: IRunService,
  optional: [ITranslator],
  activate: (app: JupyterFrontEnd, translator: ITranslator | null): IRunService => {
    const client = new Client(serverOf(app.serviceManager.serverSettings));
    const stream = new Stream(() => client.socket());
    const runs = new Runs(client, stream);
    speakAs(translator);
    document.addEventListener('visibilitychange', () => stream.sleep(document.hidden));
    // the page's own start comes first; a view that is seen earlier asks itself
    void whenIdle(app).then(() => runs.begin());
    return { client, stream, runs };
  },
};

export default plugin;

/** Set the page's language to JupyterLab's: words and screen readers go by the page. */
function speakAs(translator: ITranslator | null): void {
  if (translator && isChinese(translator.languageCode)) {
    document.documentElement.lang = 'zh-CN';
  }
}

function serverOf(settings: ServerConnection.ISettings): Server {
  return {
    baseUrl: settings.baseUrl,
    wsUrl: settings.wsUrl,
    token: settings.appendToken ? settings.token : '',
    request: (url, init) => ServerConnection.makeRequest(url, init, settings),
    socket: url => new settings.WebSocket(url),
  };
}
