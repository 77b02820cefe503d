// The program of runtime: node, started by a Troupe node as: node main.mjs
import { Files, Worker } from "./troupe_worker.mjs";

new Worker(new Files()).run();
