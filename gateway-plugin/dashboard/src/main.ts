// The convergence page. It keeps the frames, the one cursor, and the panels; it draws when a frame came or the cursor
// moved, at most once for each picture of the screen, and not at all while nobody looks.
import 'uplot/dist/uPlot.min.css';
import './style.css';

import { start } from './app';

start(document.getElementById('app') ?? document.body);
