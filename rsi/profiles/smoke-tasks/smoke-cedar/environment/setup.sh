#!/bin/bash
set -e
cd /app
echo cedar > cedar.txt
