#!/bin/bash
set -e
cd /app
echo birch > birch.txt
