import hooks from 'eslint-plugin-react-hooks';
import { defineConfig } from 'eslint/config';
import typescript from 'typescript-eslint';

export default defineConfig(
  { ignores: ['node_modules/', 'lib/'] },
  ...typescript.configs.strict,
  hooks.configs.flat.recommended,
  {
    rules: {
      'no-console': 'error',
      eqeqeq: 'error',
      // positions that a loop's bounds guarantee
      '@typescript-eslint/no-non-null-assertion': 'off',
    },
  },
);
