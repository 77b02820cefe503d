// The program of runtime: node, started by a node of Troupe as: node main.mjs
import { Files, Worker } from "./troupe_worker.mjs";

new Worker(new Files()).run();
