import { LabIcon } from '@jupyterlab/ui-components';

/** Four ranks, as in the sidebar of the design. */
export const ranksIcon = new LabIcon({
  name: 'nbdist:ranks',
  svgstr: `<svg xmlns="http://www.w3.org/2000/svg" width="16" viewBox="0 0 16 16">
    <g class="jp-icon3 jp-icon-selectable-inverse" fill="none" stroke="#616161" stroke-width="1.5">
      <rect x="2.5" y="2.5" width="4" height="4" rx=".5"/><rect x="9.5" y="2.5" width="4" height="4" rx=".5"/>
      <rect x="2.5" y="9.5" width="4" height="4" rx=".5"/><rect x="9.5" y="9.5" width="4" height="4" rx=".5"/>
    </g></svg>`,
});
