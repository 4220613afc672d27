/** Provides the list of runs and the stream, and keeps them asleep while nobody can see the page. */
import type { JupyterFrontEnd, JupyterFrontEndPlugin } from '@jupyterlab/application';
import { ServerConnection } from '@jupyterlab/services';
import { ITranslator } from '@jupyterlab/translation';

import { languageOf, WORDS, type Language } from '../../words';
import { Client, type Server } from '../client';
import { whenIdle } from '../idle';
import { Runs } from '../runs';
import { Stream } from '../stream';
import { IRunService } from '../tokens';
import { LAB_WORDS } from '../words';

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
    const language = spoken(translator);
    document.addEventListener('visibilitychange', () => runs.sleep(document.hidden));
    // the page's own start comes first; a view that is seen earlier asks itself
    void whenIdle(app).then(() => runs.begin());
    return { client, stream, runs, language, words: LAB_WORDS[language], panelWords: WORDS[language] };
  },
};

export default plugin;

/** The language that JupyterLab was set to; where nobody set one, the panel's. */
function spoken(translator: ITranslator | null): Language {
  const code = translator?.languageCode.toLowerCase() ?? '';
  if (code.startsWith('zh')) {
    // JupyterLab's page says English whatever it speaks; panels and screen readers go by it
    document.documentElement.lang = 'zh-CN';
  }
  return languageOf(document, navigator.language);
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
