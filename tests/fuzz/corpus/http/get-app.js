GET /app.js HTTP/1.1
Host: localhost

