#!/bin/bash
set -e
cd /app
echo delta > delta.txt
