#!/bin/bash
set -e
cd /app
echo heron > heron.txt
