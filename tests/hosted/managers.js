// The part of a front end around a widget manager that is not its own: it gets a kernel's messages, and draws outputs.

const parts = buffers => buffers.map(part => Uint8Array.from(atob(part), character => character.charCodeAt(0)));
const signal = { connect: () => true, disconnect: () => true };

/** Messages, for any number of readers, each from the first. */
class Channel {
  told = [];
  closed = false;
  waiting = [];
  put(...messages) {
    this.told.push(...messages);
    this.waiting.splice(0).forEach(go => go());
  }
  close() {
    this.closed = true;
    this.put();
  }
  async *[Symbol.asyncIterator]() {
    for (let at = 0; ; at++) {
      while (at >= this.told.length) {
        if (this.closed) return;
        await new Promise(go => this.waiting.push(go));
      }
      yield this.told[at];
    }
  }
}

const managers = {
  /** VS Code: what its extension gives the manager is a connection to a kernel, as JupyterLab's own. */
  async vscode() {
    const { activate } = await import('/ipywidgets.js');
    activate();
    window.vscIPyWidgets8.load();
    window.requirejs.config({ paths: { anywidget: '/anywidget' } });
    let opened;
    const connection = {
      id: 'k', clientId: 'c', username: 'u', name: 'python3', model: { id: 'k', name: 'python3' },
      status: 'idle', connectionStatus: 'connected', isDisposed: false, handleComms: true,
      statusChanged: signal, connectionStatusChanged: signal, iopubMessage: signal, disposed: signal,
      anyMessage: signal, unhandledMessage: signal, pendingInput: signal,
      registerCommTarget: (_target, open) => { opened = open; },
      removeCommTarget: () => undefined,
      requestCommInfo: () => Promise.resolve({ content: { status: 'ok', comms: {} } }),
    };
    const loader = {
      widgetsRegisteredInRequireJs: new Set(['anywidget']),
      loadWidgetScript: () => Promise.resolve(),
      successHandler: () => undefined,
      errorHandler: (...problem) => console.error(...problem),
    };
    const manager = new window.vscIPyWidgets.WidgetManager(connection, document.body, loader, () => undefined);
    const comms = new Map();
    return {
      open(id, message) {
        const comm = {
          commId: id,
          targetName: 'jupyter.widget',
          send: data => { window.tell(id, data); return { msg: { header: { msg_id: 'm' } } }; },
          close: () => undefined,
        };
        comms.set(id, comm);
        opened(comm, message);
      },
      hear: (id, message) => comms.get(id)?.onMsg?.(message),
      close: (id, message) => { comms.get(id)?.onClose?.(message); comms.delete(id); },
      async render(id, element) {
        const model = await manager.get_model(id);
        await manager.display_view(null, await manager.create_view(model, { el: element }), { node: element });
      },
    };
  },

  /** Colab: the manager asks for the state of a model, and for a channel to it. */
  async colab() {
    const { createWidgetManager } = await import('/manager.js');
    const models = new Map();
    const manager = createWidgetManager({
      getModelState: id => Promise.resolve(models.get(id)),
      openCommChannel: () => Promise.reject(new Error('no widget opens one')),
      renderOutput: () => Promise.reject(new Error('no widget draws outputs')),
    });
    return {
      open(id, { content, buffers }) {
        const { state, buffer_paths: paths } = content.data;
        paths.forEach((path, at) => {
          const holder = path.slice(0, -1).reduce((value, key) => value[key], state);
          holder[path.at(-1)] = buffers[at];
        });
        const messages = new Channel();
        models.set(id, {
          modelName: state._model_name,
          modelModule: state._model_module,
          modelModuleVersion: state._model_module_version,
          state,
          messages,
          comm: { messages, send: async data => window.tell(id, data), close: () => undefined },
        });
      },
      hear: (id, { content, buffers }) =>
        models.get(id)?.messages.put({ data: content.data, buffers: buffers.map(part => part.buffer) }),
      close: id => { models.get(id)?.messages.close(); models.delete(id); },
      render: (id, element) => manager.render(id, element),
    };
  },
};

const WIDGET = 'application/vnd.jupyter.widget-view+json';
const host = await managers[new URLSearchParams(location.search).get('manager')]();
const outputs = new Map();

function draw(output, data) {
  output.replaceChildren();
  if (data[WIDGET]) {
    const place = document.createElement('div');
    output.append(place);
    return host.render(data[WIDGET].model_id, place);
  }
  if (data['text/html']) {
    output.innerHTML = data['text/html'];
  } else {
    output.textContent = data['text/plain'] ?? '';
  }
}

/** What the kernel says, in its order. */
window.hear = ({ type, content, metadata, buffers }) => {
  const message = { content, metadata, buffers: parts(buffers), header: {}, parent_header: {}, channel: 'iopub' };
  if (type === 'comm_open') host.open(content.comm_id, message);
  if (type === 'comm_msg') host.hear(content.comm_id, message);
  if (type === 'comm_close') host.close(content.comm_id, message);
  if (type === 'display_data') {
    const output = document.createElement('div');
    document.body.append(output);
    outputs.set(content.transient.display_id ?? output, output);
    void draw(output, content.data);
  }
  if (type === 'update_display_data' && outputs.has(content.transient.display_id)) {
    void draw(outputs.get(content.transient.display_id), content.data);
  }
};
document.body.dataset.ready = '';
