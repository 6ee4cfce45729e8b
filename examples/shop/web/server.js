// The shop's front end: the files of public/, /api/ passed on to the API, and a page that loads itself
// again when one of its files changes.
'use strict';

const fs = require('node:fs');
const http = require('node:http');
const path = require('node:path');

const PORT = Number(process.env.WEB_PORT || 3000);
const API_PORT = Number(process.env.API_PORT || 8080);
const PUBLIC = path.join(__dirname, 'public');
const TYPES = { '.html': 'text/html', '.css': 'text/css', '.js': 'text/javascript' };
const pages = new Set();

// Appended to every page: it listens, and loads itself again. It also does after the server was away.
const RELOAD = `<script>
  const events = new EventSource('/reload');
  let lost = false;
  events.onerror = () => { lost = true; };
  events.onopen = () => { if (lost) location.reload(); };
  events.addEventListener('reload', () => location.reload());
</script>`;

const server = http.createServer((request, response) => {
  const url = new URL(request.url, 'http://shop.test');
  if (url.pathname.startsWith('/api/')) return pass(request, response, url.pathname.slice(4));
  if (url.pathname === '/reload') return listen(response);
  return file(response, url.pathname === '/' ? '/index.html' : url.pathname);
});

function pass(request, response, to) {
  const options = { host: '127.0.0.1', port: API_PORT, path: to, method: request.method, headers: request.headers };
  const onward = http.request(options, (answer) => {
    response.writeHead(answer.statusCode, answer.headers);
    answer.pipe(response);
  });
  onward.on('error', (error) => plain(response, 502, `the API does not answer: ${error.message}\n`));
  request.pipe(onward);
}

function listen(response) {
  response.writeHead(200, { 'Content-Type': 'text/event-stream', 'Cache-Control': 'no-store' });
  response.write(': listening\n\n');
  pages.add(response);
  response.on('close', () => pages.delete(response));
}

function file(response, name) {
  // URL has taken every `..` away, and a name with an encoded one does not exist.
  fs.readFile(path.join(PUBLIC, name), (error, content) => {
    if (error) return plain(response, 404, `there is no ${name}\n`);
    const type = TYPES[path.extname(name)] || 'application/octet-stream';
    response.writeHead(200, { 'Content-Type': `${type}; charset=utf-8`, 'Cache-Control': 'no-store' });
    response.end(type === 'text/html' ? content + RELOAD : content);
  });
}

function plain(response, status, text) {
  if (!response.headersSent) response.writeHead(status, { 'Content-Type': 'text/plain; charset=utf-8' });
  response.end(text);
}

// Editors write a file in several steps: the pages are told once, when it is quiet.
let quiet;
fs.watch(PUBLIC, { recursive: true }, (_, name) => {
  clearTimeout(quiet);
  quiet = setTimeout(() => {
    console.log(`${name} changed: ${pages.size} page(s) told`);
    for (const page of pages) page.write(`event: reload\ndata: ${name}\n\n`);
  }, 50);
});

server.listen(PORT, '127.0.0.1', () => console.log(`the shop is on port ${PORT}`));
