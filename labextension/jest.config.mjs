export default {
  testEnvironment: 'jsdom',
  // a full machine is slow
  testTimeout: 20_000,
  roots: ['<rootDir>/test'],
  setupFiles: ['<rootDir>/test/page.ts'],
  extensionsToTreatAsEsm: ['.ts', '.tsx'],
  transform: {
    '^.+\\.tsx?$': [
      '@swc/jest',
      {
        jsc: {
          parser: { syntax: 'typescript', tsx: true },
          transform: { react: { runtime: 'automatic', importSource: 'preact' } },
          target: 'es2022',
        },
        module: { type: 'es6' },
      },
    ],
  },
  moduleNameMapper: {
    '^react(-dom)?$': 'preact/compat',
    '^react-dom/client$': 'preact/compat/client',
    '^@jupyterlab/': '<rootDir>/test/jupyterlab.ts',
    '\\.css$': '<rootDir>/test/no_style.ts',
  },
};
