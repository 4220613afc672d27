/** What JupyterLab's builder is to know beyond its own: that the sources are TypeScript. */
module.exports = {
  // the usual ids are made of the folder's path: two checkouts would differ
  optimization: { moduleIds: 'natural' },
  resolve: { extensions: ['.ts', '.tsx', '.js', '.json'] },
  module: {
    rules: [
      {
        test: /\.tsx?$/,
        loader: 'builtin:swc-loader',
        options: {
          jsc: {
            parser: { syntax: 'typescript', tsx: true },
            transform: { react: { runtime: 'automatic' } },
            target: 'es2022',
          },
        },
        type: 'javascript/auto',
      },
    ],
  },
};
